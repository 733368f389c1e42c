"""Hooks of the input: those of the input that starts a turn, and of what arrives during it (steers).

They run before the model is sent the input. Where one of them blocks it, the input is withdrawn.
"""

from dataclasses import dataclass, field

from ostler.server.engine.journal.messages import StoredUserMessage
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.stop import StopSignal
from ostler.server.engine.turn.environment_updates import revert_input_state
from ostler.server.engine.turn.setup import extract_text
from ostler.storage.repositories.steers import Steer


@dataclass(slots=True)
class SteerQueue:
    """Input that has arrived during a turn and waits for the next request."""

    hooks: SessionHooks
    waiting: list[Steer]
    """What no message has carried yet, in order of arrival. It stays stored until then: a crash loses none of it."""
    stop: StopSignal
    """Cancels the hooks when the turn ends: input that they have not let pass goes to the next turn, and its hooks."""
    _hook_context: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """By steer id, the context that hooks add for the model; only of input that they have let pass."""

    async def run_hooks(self) -> str | None:
        """Run UserPromptSubmit hooks on all that waits; returns why the turn is to end, where one of them says so."""
        with self.stop.scope():
            while (steer := self._find_unchecked()) is not None:
                outcome = await self.hooks.fire("UserPromptSubmit", prompt=extract_text(steer.blocks))
                blocked = outcome.block or outcome.stop
                if steer not in self.waiting:  # it was given back meanwhile
                    continue
                if blocked is None:
                    self._hook_context[steer.id] = outcome.context
                    continue
                self.waiting.remove(steer)
                self.hooks.session.journal.turns.withdraw_steer(steer, blocked)
                if outcome.stop:
                    return outcome.stop
        return None

    def _find_unchecked(self) -> Steer | None:
        return next((steer for steer in self.waiting if steer.id not in self._hook_context), None)

    def take(self) -> tuple[list[Steer], list[str]]:
        """Remove and return all that waits, for the next message, with the context that hooks add to it."""
        taken = self.waiting[:]
        self.waiting.clear()
        return taken, [context for steer in taken for context in self._hook_context.pop(steer.id)]


async def run_input_hooks(
    session: LiveSession, hooks: SessionHooks, input_text: str
) -> tuple[tuple[str, ...], str | None]:
    """Run SessionStart and UserPromptSubmit hooks; returns their context for the model, and why input is blocked."""
    context: tuple[str, ...] = ()
    if (agent := session.agent) is not None and len(session.history) <= max(1, session.forked_messages):
        outcome = await hooks.fire("SubagentStart", agent_id=session.record.id, agent_type=agent.kind)
        return outcome.context, outcome.stop
    if not session.start_hooks_fired:
        session.start_hooks_fired = True
        source = "resume" if len(session.history) > 1 else "startup"
        started = await hooks.fire("SessionStart", source=source)
        context = started.context
        if started.stop:
            return (), started.stop
    outcome = await hooks.fire("UserPromptSubmit", prompt=input_text)
    return (*context, *outcome.context), outcome.block or outcome.stop


def withdraw_input(session: LiveSession, input_message: StoredUserMessage) -> None:
    """Remove blocked input from the history and the stored session: the model is never sent it."""
    session.history.undo_add(input_message.encoded)
    session.state = revert_input_state(session.state)
    session.journal.turns.withdraw_input(
        input_message.message, session.tasks.notifications.requeue(session.record.id), session.state
    )
