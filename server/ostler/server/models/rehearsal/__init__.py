"""`rehearsal`: an embedded, deterministic model without intelligence, for trying the daemon without key or network."""

from ostler.server.models.rehearsal.provider import RehearsalProvider

__all__ = ["RehearsalProvider"]
