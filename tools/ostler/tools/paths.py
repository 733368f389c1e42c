"""Deprecated: plug-ins of an earlier release import `flaw` from here; it is `ostler.tools.check_path` now."""

from ostler.tools.fs.paths import check_path as flaw

__all__ = ["flaw"]
