"""The tools of plan mode: EnterPlanMode, ExitPlanMode."""
