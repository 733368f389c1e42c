"""Slash commands: lines that begin with a slash are for this terminal, not for the agent."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ostler.clients.cli.chat.session_commands import (
    begin_new_session,
    copy_answer,
    export_session,
    fork_session,
    rename_session,
    resume_session,
    say_subcommand,
    show_diff,
)
from ostler.clients.cli.chat.shortcuts import (
    choose_next_mode,
    choose_theme_here,
    redraw,
    show_keys,
    show_transcript,
    toggle_todos,
    toggle_vi,
    write_in_editor,
)
from ostler.clients.cli.output import fit, strip_colours
from ostler.clients.cli.render.ask_line import describe_folder, describe_subject, fetch_folders
from ostler.clients.cli.render.transcript import format_sessions
from ostler.clients.cli.terminal.completion import Suggestion
from ostler.protocol.ids import TaskId
from ostler.protocol.methods import SESSION_UPDATE, TASK_LIST, TASK_STOP
from ostler.protocol.session import SessionUpdate
from ostler.protocol.task import TaskList, TaskRef

if TYPE_CHECKING:
    from ostler.clients.cli.chat.session import ChatSession

_HELP_HEAD: Final = "Words go to the agent; while a turn runs they steer it. An open ask takes the keys that it shows."
_HELP_WIDTH: Final = 15
_TASK_WIDTH: Final = 100

Run = Callable[["ChatSession", str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A row of the table below: /help, completion and the page about the terminal are made of it."""

    name: str
    help: str
    """What it does, in one line; empty where only a key stands for it."""
    run: Run
    """What does it, with the rest of the line."""
    argument: str = ""
    """What stands behind it, as /help shows it: `TEXT`."""
    aliases: tuple[str, ...] = ()
    """Further names, which /help leaves out."""

    @property
    def usage(self) -> str:
        return f"{self.name} {self.argument}".rstrip()


async def run_slash_command(chat: "ChatSession", line: str) -> bool:
    """Run a line that is a slash command; whether it was one."""
    if not is_slash_command(line):
        return False
    name, _, rest = line.strip().partition(" ")
    command = find_slash_command(name)
    if command is None and await chat.has_skill(name.removeprefix("/")):
        return False  # the daemon expands it
    if command is None:
        chat.tell(f"There is no {name}. /help lists what there is.", "yellow")
    else:
        await command.run(chat, rest.strip())
    return True


def is_slash_command(line: str) -> bool:
    """Not words, and not a path."""
    name = line.strip().partition(" ")[0]
    return name.startswith("/") and "/" not in name[1:]


def find_slash_command(name: str) -> SlashCommand | None:
    return next((one for one in SLASH_COMMANDS if name == one.name or name in one.aliases), None)


def format_help() -> str:
    shown = [one for one in SLASH_COMMANDS if one.help]
    return "\n".join([_HELP_HEAD, *(f"  {one.usage:<{_HELP_WIDTH}} {one.help}" for one in shown)])


def suggest_slash_commands(text: str) -> list[Suggestion]:
    """What a line that begins with a slash can become."""
    if not text.startswith("/") or any(char.isspace() for char in text):
        return []
    return [
        Suggestion(0, f"{one.name} ", f"{one.argument}  {one.help}".strip())
        for one in SLASH_COMMANDS
        if one.help and one.name.startswith(text.lower())
    ]


async def _help(chat: "ChatSession", rest: str) -> None:
    chat.tell(format_help())


async def _quit(chat: "ChatSession", rest: str) -> None:
    chat.leave()


async def _interrupt(chat: "ChatSession", rest: str) -> None:
    await chat.interrupt()


async def _queue(chat: "ChatSession", rest: str) -> None:
    if not rest:
        chat.tell("What shall be done then? /queue TEXT", "yellow")
    else:
        await chat.send_input(rest, queue=True)


async def _say(chat: "ChatSession", rest: str) -> None:
    if not rest:
        chat.tell("What shall be said? /say TEXT", "yellow")
    else:
        await chat.send_input(rest)


async def _mode(chat: "ChatSession", rest: str) -> None:
    if not rest:
        chat.tell(f"The mode is {chat.session.mode}.")
        return
    # Whether it is a mode is for the daemon to say.
    await chat.ostler.request("session/update", {"session_id": chat.session.id, "mode": rest})


async def _plan(chat: "ChatSession", rest: str) -> None:
    await chat.ostler.call(SESSION_UPDATE, SessionUpdate(session_id=chat.session.id, mode="plan"))
    if rest:
        await chat.send_input(rest)


async def _model(chat: "ChatSession", rest: str) -> None:
    if not rest:
        chat.tell(f"The model is {chat.session.model}.")
        return
    await chat.ostler.call(SESSION_UPDATE, SessionUpdate(session_id=chat.session.id, model=rest))


async def _background(chat: "ChatSession", rest: str) -> None:
    from ostler.clients.cli.chat.background import send_to_background

    turn = chat.turn
    if turn is None or not await send_to_background(chat.ostler, turn):
        chat.tell("No command runs.")


async def _tasks(chat: "ChatSession", rest: str) -> None:
    wanted = TaskList(session_id=chat.session.id, status="running")
    found = (await chat.ostler.call(TASK_LIST, wanted)).tasks
    for task in found:
        chat.tell(f"{task.id}  {fit(task.command or task.description, _TASK_WIDTH)}", "cyan")
    if not found:
        chat.tell("Nothing runs in the background.")


async def _stop(chat: "ChatSession", rest: str) -> None:
    if not rest:
        chat.tell("Which one? /tasks lists them: /stop TASK", "yellow")
    else:
        await chat.ostler.call(TASK_STOP, TaskRef(task_id=TaskId(rest)))


async def _agents(chat: "ChatSession", rest: str) -> None:
    found = await chat.ostler.request("session/get", {"session_id": chat.session.id})
    for agent in found["agents"]:
        named = f"{agent['name']}: {agent['description']}" if agent["name"] else agent["description"]
        chat.tell(f"{agent['status']:<8} {agent['kind']} {fit(named, _TASK_WIDTH)}", "cyan")
    if not found["agents"]:
        chat.tell("No agent is at work. `ostler agents` lists those that were.")


async def _todos(chat: "ChatSession", rest: str) -> None:
    from ostler.clients.cli.render.todo import format_todo

    found = (await chat.ostler.request("todo/list", {"session_id": chat.session.id}))["todos"]
    for todo in found:
        chat.tell(strip_colours(format_todo(todo, found)), None)
    if not found:
        chat.tell("The work list is empty.")


async def _context(chat: "ChatSession", rest: str) -> None:
    from ostler.clients.cli.render.context import format_context

    for line in format_context(await chat.ostler.request("session/context", {"session_id": chat.session.id})):
        chat.tell(line, None)


async def _compact(chat: "ChatSession", rest: str) -> None:
    chat.tell("The conversation is being summarised …", "dim")
    await chat.ostler.request("session/compact", {"session_id": chat.session.id, "instructions": rest or None})


async def _usage(chat: "ChatSession", rest: str) -> None:
    from ostler.clients.cli.render.context import format_usage

    for line in format_usage(await chat.ostler.request("session/usage", {"session_id": chat.session.id})):
        chat.tell(line, None)


async def _asks(chat: "ChatSession", rest: str) -> None:
    found = (await chat.ostler.request("ask/list"))["asks"]
    folders = await fetch_folders(chat.ostler, found)
    for ask in found:
        elsewhere = f"  in {shown}" if (shown := describe_folder(folders[ask["session_id"]])) else ""
        root = ask["root_id"]
        where = "" if root == chat.session.root_id else f"  (`ostler attach {root}`)"
        chat.tell(f"? {describe_subject(ask)}{elsewhere}{where}", "red" if ask["destructive"] else "yellow")
    if not found:
        chat.tell("Nothing is asked.")


async def _sessions(chat: "ChatSession", rest: str) -> None:
    found = await chat.ostler.request("session/list", {"limit": 20})
    for line in format_sessions(found["sessions"]):
        chat.tell(strip_colours(line), None)


SLASH_COMMANDS: Final = (
    SlashCommand("/help", "this", _help),
    SlashCommand("/interrupt", "stop the turn, as Esc and Ctrl-C do", _interrupt),
    SlashCommand("/say", "words for the agent, also while it asks something", _say, "TEXT"),
    SlashCommand("/queue", "a further turn, after the one that runs", _queue, "TEXT"),
    SlashCommand("/mode", "default, acceptEdits, plan, auto, dontAsk or bypassPermissions", _mode, "M"),
    SlashCommand("/model", "the model of the turns to come", _model, "M"),
    SlashCommand("/background", "let the command that runs go on in the background, as Ctrl-B does", _background),
    SlashCommand("/tasks", "what runs in the background", _tasks),
    SlashCommand("/stop", "end one of those", _stop, "TASK"),
    SlashCommand("/agents", "the agents that work for this session, or wait for their place", _agents),
    SlashCommand("/todos", "the work list", _todos),
    SlashCommand("/context", "what fills the window of the model", _context),
    SlashCommand("/compact", "summarise the conversation for the model", _compact, "WORDS"),
    SlashCommand("/usage", "tokens and money, today and in all", _usage),
    SlashCommand("/asks", "what is asked, here and elsewhere", _asks),
    SlashCommand("/sessions", "the other sessions", _sessions),
    SlashCommand("/resume", "go on in another session; type on to choose one", resume_session, "SESSION"),
    SlashCommand("/new", "a new session in this folder", begin_new_session, aliases=("/clear",)),
    SlashCommand("/fork", "go on in a copy of this session", fork_session, "TITLE"),
    SlashCommand("/rename", "call this session something else", rename_session, "TITLE"),
    SlashCommand("/export", "write the session to a file, as Markdown", export_session, "FILE"),
    SlashCommand("/copy", "the last answer into the clipboard; `code`: its last block of code", copy_answer, "code"),
    SlashCommand("/diff", "what this session has changed", show_diff),
    SlashCommand("/plan", "think first: the mode in which nothing is changed", _plan),
    SlashCommand("/theme", "ansi, dark, light or colour-blind, for this chat", choose_theme_here, "NAME"),
    SlashCommand("/vim", "the keys of vi, or those of Emacs again", toggle_vi),
    SlashCommand("/rules", "the rules about permission", say_subcommand("rules", "list", session=True)),
    SlashCommand("/hooks", "the hooks of this session", say_subcommand("hooks", session=True)),
    SlashCommand("/mcp", "the MCP servers of this session", say_subcommand("mcp", "list", session=True)),
    SlashCommand("/status", "the daemon", say_subcommand("status")),
    SlashCommand("/doctor", "whether everything is there that ostler needs", say_subcommand("doctor")),
    SlashCommand("/config", "the settings, and where each comes from", say_subcommand("config")),
    SlashCommand("/transcript", "all that was said and done, in $PAGER", show_transcript),
    SlashCommand("/editor", "go on with what is typed in $EDITOR", write_in_editor),
    SlashCommand("/keys", "the keys of this terminal", show_keys),
    SlashCommand("/next-mode", "", choose_next_mode),
    SlashCommand("/toggle-todos", "", toggle_todos),
    SlashCommand("/redraw", "", redraw),
    SlashCommand("/quit", "leave, as Ctrl-D does; the turn goes on", _quit, aliases=("/exit",)),
)
"""All of them. A further one is a row here, and nothing else has to know of it."""
