"""Lines that begin with a slash are for this terminal, not for the agent."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from ostler.clients.cli.chat.ask_prompt import Answering
from ostler.clients.cli.output import fit, uncoloured
from ostler.clients.cli.render.transcript import session_lines
from ostler.protocol.ask import AskList
from ostler.protocol.ids import TaskId
from ostler.protocol.methods import ASK_LIST, SESSION_UPDATE, TASK_LIST, TASK_STOP
from ostler.protocol.session import SessionUpdate
from ostler.protocol.task import TaskList, TaskRef

if TYPE_CHECKING:
    from ostler.clients.cli.chat.session import Attached

HELP: Final = """\
Words go to the agent; while a turn runs they steer it. An open ask takes the keys that it shows.
  /help           this
  /interrupt      stop the turn, as Esc and Ctrl-C do
  /queue TEXT     a further turn, after the one that runs
  /mode M         default, acceptEdits, plan, auto, dontAsk or bypassPermissions
  /model M        the model of the turns to come
  /background     let the command that runs go on in the background, as Ctrl-B does
  /tasks          what runs in the background
  /stop TASK      end one of those
  /asks           what is asked, here and elsewhere
  /sessions       the other sessions
  /quit           leave, as Ctrl-D does; the turn goes on"""

_TASK_WIDTH: Final = 100

Command = Callable[["Attached", str], Awaitable[None]]


async def obey(attached: "Attached", line: str) -> bool:
    """Whether it was such a line."""
    name, _, rest = line.strip().partition(" ")
    if not name.startswith("/") or "/" in name[1:]:
        return False  # words, or a path
    command = _COMMANDS.get(name)
    if command is None:
        attached.tell(f"There is no {name}. /help lists what there is.", "yellow")
    else:
        await command(attached, rest.strip())
    return True


async def _help(attached: "Attached", rest: str) -> None:
    attached.tell(HELP)


async def _quit(attached: "Attached", rest: str) -> None:
    attached.leave()


async def _interrupt(attached: "Attached", rest: str) -> None:
    await attached.interrupt()


async def _queue(attached: "Attached", rest: str) -> None:
    if not rest:
        attached.tell("What shall be done then? /queue TEXT", "yellow")
    else:
        await attached.say(rest, queue=True)


async def _mode(attached: "Attached", rest: str) -> None:
    if not rest:
        attached.tell(f"The mode is {attached.session.mode}.")
        return
    # Whether it is a mode is for the daemon to say.
    await attached.ostler.request("session/update", {"session_id": attached.session.id, "mode": rest})


async def _model(attached: "Attached", rest: str) -> None:
    if not rest:
        attached.tell(f"The model is {attached.session.model}.")
        return
    await attached.ostler.call(SESSION_UPDATE, SessionUpdate(session_id=attached.session.id, model=rest))


async def _background(attached: "Attached", rest: str) -> None:
    from ostler.clients.cli.chat.background import send_behind

    turn = attached.turn
    if turn is None or not await send_behind(attached.ostler, turn):
        attached.tell("No command runs.")


async def _tasks(attached: "Attached", rest: str) -> None:
    wanted = TaskList(session_id=attached.session.id, status="running")
    found = (await attached.ostler.call(TASK_LIST, wanted)).tasks
    for task in found:
        attached.tell(f"{task.id}  {fit(task.command or task.description, _TASK_WIDTH)}", "cyan")
    if not found:
        attached.tell("Nothing runs in the background.")


async def _stop(attached: "Attached", rest: str) -> None:
    if not rest:
        attached.tell("Which one? /tasks lists them: /stop TASK", "yellow")
    else:
        await attached.ostler.call(TASK_STOP, TaskRef(task_id=TaskId(rest)))


async def _asks(attached: "Attached", rest: str) -> None:
    found = (await attached.ostler.call(ASK_LIST, AskList())).asks
    for ask in found:
        where = (
            "" if ask.root_id == attached.session.root_id else f"  (in {ask.root_id}: `ostler attach {ask.root_id}`)"
        )
        text, colour = Answering(ask).shown()[0]
        attached.tell(f"{text}{where}", colour)
    if not found:
        attached.tell("Nothing is asked.")


async def _sessions(attached: "Attached", rest: str) -> None:
    found = await attached.ostler.request("session/list", {"limit": 20})
    for line in session_lines(found["sessions"]):
        attached.tell(uncoloured(line), None)


_COMMANDS: Final[dict[str, Command]] = {
    "/help": _help,
    "/quit": _quit,
    "/exit": _quit,
    "/interrupt": _interrupt,
    "/queue": _queue,
    "/mode": _mode,
    "/model": _model,
    "/background": _background,
    "/tasks": _tasks,
    "/stop": _stop,
    "/asks": _asks,
    "/sessions": _sessions,
}
