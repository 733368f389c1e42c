"""Keys, resizes and events at random for a chat in a real terminal: at the end it is sane, and takes what is typed."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.clients.cli.chat.pane import Pane
from tests.clients.conftest import Cli
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon

_REPORTS: Final = (
    "\x1b[<0;10;10M",
    "\x1b[<35;200;1m",
    "\x1b[M !!",
    "\x1b[?1;2c",
    "\x1b[12;40R",
    "\x1b]11;rgb:0000/0000/0000\x07",
    "\x1bP>|term\x1b\\",
    "\x1b[I",
    "\x1b[O",
    "\x1b[200~half a paste",
    "\x1b[201~",
    "\x1b[999;",
    "\x1b",
)
_TRIES: Final = 100
_KEYS: Final = ("Up", "Down", "Left", "Right", "Home", "End", "BSpace", "DC", "Tab", "BTab", "Escape", "M-Enter", "M-b")
_CONTROLS: Final = tuple(f"C-{letter}" for letter in "abefhjklnprtuwxy_")
_WORDS: Final = (
    "read README.md",
    "run seq 1 2000",
    "run touch made",
    "ask me which one: tea or coffee",
    "plan to read README.md then run make",
    "/help",
    "/mode default",
    "/agents",
    "日本語 👩\u200d💻 e\u0301 \u202eabc",
    "@READ",
    "x" * 300,
)


class _PlainCli(Cli):
    """Keys at random open the editor and the pager, which would not be left by the same ones."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "EDITOR": "true", "VISUAL": "true", "PAGER": "cat"}


def press_keys(folder: Path, *, seconds: float, seed: int, report: Callable[[str], None]) -> Row:
    """Everything that a keyboard, a terminal and its size can do to a chat, in any order."""
    rng, findings = random.Random(seed), Findings()
    (project := folder / "project").mkdir()
    (project / "README.md").write_text("hello\n")
    actions = 0
    with Daemon(folder / "home") as daemon, Pane(_PlainCli(daemon.home), "chat", cwd=project) as pane:
        pane.read_until("\n>")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            _act(pane, rng)
            actions += 1
            if actions % 20 == 0:
                report(f"keys: {actions} actions, seed {seed}")
        shown = _calm_down(pane)
        findings.expect("> still here" in shown, f"the line does not take what is typed:\n{shown}")
        findings.expect("\x1b" not in shown, "a control character stands on the screen")
        pane.press("C-u", "C-d")
        findings.expect("left with 0" in pane.read_until("left with"), "the chat did not leave in peace")
    return findings.build_row("keys and resizes", f"{actions} actions in {seconds:.0f} s", seed=seed)


def _act(pane: Pane, rng: random.Random) -> None:
    match rng.randrange(8):
        case 0:
            pane.resize(rng.choice((5, 20, 40, 80, 120, 300)), rng.choice((3, 5, 12, 24, 60)))
        case 1:
            pane.type(rng.choice(_REPORTS))
        case 2 | 3:
            pane.press(*(rng.choice((*_KEYS, *_CONTROLS)) for _ in range(rng.randrange(1, 8))))
        case 4:
            pane.type(
                "".join(
                    chr(rng.choice((*range(33, 59), *range(60, 127), *range(0xA1, 0x2FF))))
                    for _ in range(rng.randrange(1, 20))
                )
            )
        case 5:
            pane.type(rng.choice("yandexlv?12"))
        case _:
            pane.type(rng.choice(_WORDS))
            pane.press("Enter")


def _calm_down(pane: Pane) -> str:
    """End what is begun, as a person would, empty the line, and type something."""
    pane.resize(80, 24)
    pane.type("\x1b[201~")
    for _ in range(_TRIES):
        pane.press("Escape")
        pane.wait()  # else the next key would be one with Alt
        pane.press("M->", *["C-u", "BSpace"] * 20)
        pane.type("still here")
        pane.wait()
        shown = pane.read()
        if "> still here" in shown:
            return shown
    return pane.read()
