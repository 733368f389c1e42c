"""Finds what a command did to a git repository and to pull requests, from its text, its output and the reflog."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.shell.git_head import ReflogEntry
from ostler.tools.tool import ToolOutput

Words = Sequence[str | None]
"""A simple command; None for a word that only the run decides."""

CommitKind = Literal["committed", "amended", "cherry-picked"]
BranchAction = Literal["merged", "rebased"]
PullAction = Literal["created", "edited", "merged", "commented", "closed", "ready"]


class Commit(ToolOutput):
    """A commit that was made."""

    sha: str
    kind: CommitKind


class Push(ToolOutput):
    """A branch that was pushed."""

    branch: str


class Branch(ToolOutput):
    """What was merged into the branch, or what it was rebased onto."""

    ref: str
    action: BranchAction


class Pull(ToolOutput):
    """A pull or merge request."""

    number: int | None
    url: str | None
    action: PullAction


class GitChanges(ToolOutput):
    """All that a command did; of several of a kind the last."""

    commit: Commit | None = None
    push: Push | None = None
    branch: Branch | None = None
    pr: Pull | None = None


_MAX_CHARS: Final = 32 * 1024
"""Of the beginning and of the end of the output that are searched: it may be made to be slow to search."""
_PROGRAMS: Final = compile_later(r"\b(?:git|gh|glab|curl)\b")
_COMMITTED: Final = compile_later(r"^\[[^\]\n]*?(?:\(root-commit\) )?\b([0-9a-f]{4,64})\] ", re.MULTILINE)
_PUSHED: Final = compile_later(
    r"^ *[ +*] (?:\[new branch\]|[0-9a-f]{4,64}\.{2,3}[0-9a-f]{4,64}) +\S+ +-> +(\S+)"
    r"|^[ +*]\t\S+?:refs/heads/(\S+)\t",  # with --porcelain
    re.MULTILINE,
)
_NOTHING_PUSHED: Final = compile_later(r"^Everything up-to-date|^ ?! ?\[|^=\t", re.MULTILINE)
_MERGED: Final = compile_later(r"^(?:Fast-forward|Merge made by |Updating [0-9a-f]+\.\.[0-9a-f]+)", re.MULTILINE)
_REBASED: Final = compile_later(r"Successfully rebased and updated |^Fast-forwarded ", re.MULTILINE)
_REFLOG_MESSAGES: Final = {
    "committed": compile_later(r"commit(?: \((?:initial|merge)\))?: "),
    "amended": compile_later(r"commit \(amend\): "),
    "cherry-picked": compile_later(r"cherry-pick: "),
    "merge": compile_later(r"merge [^:]*: "),
    "rebase": compile_later(r"rebase (?:\(finish\)|finished): "),
}
_PULL_URL: Final = compile_later(r"https?://[^\s\"'<>]{1,200}?/(?:pull|pulls|pull-requests|merge_requests)/(\d{1,12})")
_PULL_NUMBER: Final = compile_later(r"(?:^|[\s/(])(?:[\w.-]{1,100}/[\w.-]{1,100})?[#!](\d{1,12})\b")
_PULL_API: Final = compile_later(
    r"(?:^|/)repos/[^/\s]+/[^/\s]+/pulls/?(?:\?.*)?$|/projects/[^/\s]+/merge_requests/?(?:\?.*)?$"
    r"|/repositories/[^/\s]+/[^/\s]+/pullrequests/?(?:\?.*)?$"
)
_API_URL: Final = compile_later(
    r'"(?:html_url|web_url)"\s*:\s*"(https?://[^"\s]{1,200}?/(?:pull|pulls|merge_requests)/(\d{1,12}))"'
)

_COMMIT_SKIPS: Final = frozenset({"--dry-run", "--short", "--porcelain", "--long"})
_UNDOES: Final = frozenset({"--abort", "--quit", "--skip", "--no-commit", "--squash", "--edit-todo"})
_NO_COMMIT: Final = compile_later(r"-[ersx]*n[ersx]*\Z")
"""`-n` of cherry-pick, alone or with others in one word; of merge and rebase it is `--no-stat`."""
_VALUES: Final = {
    "merge": frozenset({"-m", "-F", "-s", "-X", "--strategy", "--strategy-option", "--file", "--into-name"}),
    "rebase": frozenset({"--onto", "-s", "-X", "-x", "--exec", "--strategy", "--strategy-option"}),
    "push": frozenset({"-o", "--push-option", "--receive-pack", "--exec", "--repo"}),
    "pull": frozenset({
        "--repo", "-R", "--body", "-b", "--body-file", "-F", "--title", "-t", "--subject", "-c", "--comment",
    }),
}  # fmt: skip
_PULL_ACTIONS: Final[dict[str, PullAction]] = {
    "create": "created",
    "new": "created",
    "edit": "edited",
    "merge": "merged",
    "comment": "commented",
    "close": "closed",
    "ready": "ready",
}
_SENDS: Final = ("-d", "--data", "--json", "-F", "--form", "--url-query")
_FIELDS: Final = ("-f", "-F", "--field", "--raw-field", "--input")


def find_git_changes(command: str, output: str, entries: Sequence[ReflogEntry] = ()) -> GitChanges | None:
    """For a command that ended with exit code 0; null where it did nothing of the kind.

    `entries` are new entries of the repository's reflog: a command may have printed nothing, or into a file.
    """
    if _PROGRAMS.search(command) is None:
        return None
    return collect_changes(_list_simple_commands(command), output, entries)


def collect_changes(ran: Iterable[Words], output: str, entries: Sequence[ReflogEntry] = ()) -> GitChanges | None:
    """The same for commands that are parsed already."""
    if len(output) > 2 * _MAX_CHARS:
        output = f"{output[:_MAX_CHARS]}\n{output[-_MAX_CHARS:]}"
    found: dict[str, Commit | Push | Branch | Pull] = {}
    for words in ran:
        for change in _find_in_command(words, output, entries):
            match change:
                case Commit():
                    found["commit"] = change
                case Push():
                    found["push"] = change
                case Branch():
                    found["branch"] = change
                case Pull():
                    found["pr"] = change
    return GitChanges.model_validate(found) if found else None


def _list_simple_commands(command: str) -> Iterator[Words]:
    """The simple commands of a command line, without git's own options, and with what runs inside wrappers."""
    for part in commands.parse_command(command).parts:
        for inner in commands.unwrap(part):
            yield inner.words


def _find_in_command(
    words: Words, output: str, entries: Sequence[ReflogEntry]
) -> Iterator[Commit | Push | Branch | Pull]:
    match list(words[:3]):
        case ["git", str(subcommand), *_]:
            yield from _find_in_git(subcommand, words[2:], output, entries)
        case ["gh", "pr", str(action)] if action in _PULL_ACTIONS:
            yield from _find_pull(_PULL_ACTIONS[action], words[3:], output)
        case ["glab", "mr", "create" | "new"]:
            yield from _find_pull("created", words[3:], output)
        case ["curl", *_] if _posts(words[1:], _SENDS) and any(map(_is_pull_api, words[1:])):
            yield from _find_created_pull(output)
        case ["gh", "api", *_] if _posts(words[2:], _FIELDS) and any(map(_is_pull_api, words[2:])):
            yield from _find_created_pull(output)


def _find_in_git(
    subcommand: str, arguments: Words, output: str, entries: Sequence[ReflogEntry]
) -> Iterator[Commit | Push | Branch]:
    match subcommand:
        case "commit" if not _COMMIT_SKIPS & set(arguments):
            yield from _find_commit("amended" if "--amend" in arguments else "committed", output, entries)
        case "cherry-pick" if not _UNDOES & set(arguments) and not any(map(_is_no_commit, arguments)):
            yield from _find_commit("cherry-picked", output, entries)
        case "push" if not {"-n", "--dry-run", "-d", "--delete"} & set(arguments):
            yield from _find_push(arguments, output)
        case "merge" if not _UNDOES & set(arguments) and (_MERGED.search(output) or _has_entry("merge", entries)):
            yield from _find_branch("merge", "merged", arguments)
        case "rebase" if not _UNDOES & set(arguments) and (_REBASED.search(output) or _has_entry("rebase", entries)):
            yield from _find_branch("rebase", "rebased", arguments)


def _is_no_commit(word: str | None) -> bool:
    return word is not None and _NO_COMMIT.match(word) is not None


def _find_commit(kind: CommitKind, output: str, entries: Sequence[ReflogEntry]) -> Iterator[Commit]:
    shas = _COMMITTED.findall(output) or [entry.sha for entry in entries if _REFLOG_MESSAGES[kind].match(entry.message)]
    if shas:
        yield Commit(sha=shas[-1], kind=kind)


def _has_entry(what: str, entries: Sequence[ReflogEntry]) -> bool:
    return any(_REFLOG_MESSAGES[what].match(entry.message) for entry in entries)


def _find_push(arguments: Words, output: str) -> Iterator[Push]:
    printed = [plain or porcelain for plain, porcelain in _PUSHED.findall(output)]
    if printed:
        yield Push(branch=printed[-1])
        return
    quiet = {"-q", "--quiet"} & set(arguments)
    named = _list_operands("push", arguments)[1:]
    if quiet and named and _NOTHING_PUSHED.search(output) is None:
        branch = named[-1].lstrip("+").rpartition(":")[2].removeprefix("refs/heads/")
        if branch and not branch.startswith("refs/"):
            yield Push(branch=branch)


def _find_branch(subcommand: str, action: BranchAction, arguments: Words) -> Iterator[Branch]:
    operands = _list_operands(subcommand, arguments)
    onto = _find_option_value("--onto", arguments) if subcommand == "rebase" else None
    if onto or operands:
        yield Branch(ref=onto or operands[0], action=action)


def _find_pull(action: PullAction, arguments: Words, output: str) -> Iterator[Pull]:
    found = _find_last(_PULL_URL, output)
    if found is not None:
        yield Pull(number=int(found[1]), url=found[0], action=action)
        return
    if action == "created":
        return  # without an address there is nothing to link to
    named = next(iter(_list_operands("pull", arguments)), "")
    url = _PULL_URL.match(named)
    hit = _PULL_NUMBER.search(output)
    number = url[1] if url else named.removeprefix("#") if named.removeprefix("#").isdecimal() else hit and hit[1]
    yield Pull(number=int(number) if number else None, url=url[0] if url else None, action=action)


def _find_last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    return found


def _is_pull_api(word: str | None) -> bool:
    return word is not None and _PULL_API.search(word) is not None


def _posts(arguments: Words, sends: Sequence[str]) -> bool:
    """Whether a request is a POST, by its option or implied by the data that it sends."""
    method: str | None = None
    implied = False
    for place, word in enumerate(arguments):
        if word is None:
            continue
        if word in {"-X", "--request", "--method"}:
            following = arguments[place + 1] if place + 1 < len(arguments) else None
            method = following or ""
        elif word.startswith("-X") or word.startswith(("--request=", "--method=")):
            method = word.removeprefix("-X").rpartition("=")[2]
        elif word in {"-G", "--get"}:
            method = "GET"
        else:
            implied = implied or word.startswith(tuple(sends))
    return method == "POST" if method is not None else implied


def _find_created_pull(output: str) -> Iterator[Pull]:
    # The first: what is inside of it (its branches, who made it) comes later.
    found = _API_URL.search(output)
    if found is not None:
        yield Pull(number=int(found[2]), url=found[1], action="created")


def _list_operands(subcommand: str, arguments: Words) -> list[str]:
    found: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word is not None and word.startswith("-") and word != "-":
            skip = word in _VALUES[subcommand]
        elif word is not None:
            found.append(word)
    return found


def _find_option_value(option: str, arguments: Words) -> str | None:
    for place, word in enumerate(arguments):
        if word == option and place + 1 < len(arguments):
            return arguments[place + 1]
        if word is not None and word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None
