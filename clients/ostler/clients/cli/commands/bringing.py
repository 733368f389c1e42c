"""What a folder brings that would act, as it can be told before anybody has trusted it."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ostler.clients.cli.session_choice import every

if TYPE_CHECKING:
    from ostler.clients import Ostler


@dataclass(frozen=True, slots=True)
class Brought:
    """A folder, and what is to be trusted in it."""

    folder: str
    trusted: bool
    """Nothing of it waits for trust: there is nothing, or just that was trusted."""
    what: list[str]
    """What would act, a line each."""
    granted_at: str | None = None
    """When it was trusted, even if it has changed since."""
    hides: bool = False
    """There is something to trust, and nothing of it can be told here."""

    @property
    def in_words(self) -> str:
        if not self.what and self.trusted:
            return "it brings nothing that would act."
        if self.granted_at is None:
            return "not trusted. It brings:"
        return f"trusted at {self.granted_at}." if self.trusted else "it has changed since it was trusted. It brings:"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def brought_by(ostler: "Ostler", folder: str) -> Brought:
    """What was trusted says it itself; for the rest a session looks, in which nothing is ever said."""
    trusts = (await every(ostler, "trust/list", {}, "trusts"))["trusts"]
    known = next((trust for trust in trusts if trust["folder"] == folder), None)
    if known is not None:
        return Brought(folder, known["current"], known["what"], known["granted_at"])
    session = await ostler.request("session/create", {"cwd": folder, "on_ask": "deny", "title": "what it brings"})
    try:
        if session["trusted"]:
            return Brought(folder, True, [])
        lines = await _lines(ostler, {"session_id": session["id"]})
        return Brought(folder, False, lines, hides=not lines)
    finally:
        await ostler.request("session/delete", {"session_id": session["id"]})


async def _lines(ostler: "Ostler", wanted: dict[str, Any]) -> list[str]:
    """In the words in which the daemon tells it when it is trusted."""
    rules = (await every(ostler, "rule/list", wanted, "rules"))["rules"]
    hooks = (await every(ostler, "hook/list", wanted, "hooks"))["hooks"]
    allowed = [f"allows {rule['rule']}" for rule in rules if _waits(rule, "counts") and not _is_whole(rule)]
    return allowed + [_hook_line(hook) for hook in hooks if _waits(hook, "acts")]


def _waits(one: dict[str, Any], acting: str) -> bool:
    return one["source"] in {"project", "local"} and not one[acting]


def _is_whole(rule: dict[str, Any]) -> bool:
    """A whole tool, which a committed file never allows, trusted or not."""
    return rule["source"] == "project" and "(" not in rule["rule"]


def _hook_line(hook: dict[str, Any]) -> str:
    matcher = f" ({hook['matcher']})" if hook["matcher"] else ""
    return f"hook {hook['event']}{matcher}: {hook['shown']}"
