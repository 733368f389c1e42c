"""What a command did to a repository, and to the pull requests of its host: read from its words and what it printed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from ostler.tools import commands
from ostler.tools.shell.git_head import Move
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
    """All of it; of several of a kind the last."""

    commit: Commit | None = None
    push: Push | None = None
    branch: Branch | None = None
    pr: Pull | None = None


_MAX_CHARS: Final = 32 * 1024
"""Of the beginning and of the end of what it printed: somebody may have made it to be slow to read."""
_PROGRAMS: Final = re.compile(r"\b(?:git|gh|glab|curl)\b")
_COMMITTED: Final = re.compile(r"^\[[^\]\n]*?(?:\(root-commit\) )?\b([0-9a-f]{4,64})\] ", re.MULTILINE)
_PUSHED: Final = re.compile(
    r"^ *[ +*] (?:\[new branch\]|[0-9a-f]{4,64}\.{2,3}[0-9a-f]{4,64}) +\S+ +-> +(\S+)"
    r"|^[ +*]\t\S+?:refs/heads/(\S+)\t",  # with --porcelain
    re.MULTILINE,
)
_NOTHING_PUSHED: Final = re.compile(r"^Everything up-to-date|^ ?! ?\[|^=\t", re.MULTILINE)
_MERGED: Final = re.compile(r"^(?:Fast-forward|Merge made by |Updating [0-9a-f]+\.\.[0-9a-f]+)", re.MULTILINE)
_REBASED: Final = re.compile(r"Successfully rebased and updated |^Fast-forwarded ", re.MULTILINE)
_NOTED: Final = {
    "committed": re.compile(r"commit(?: \((?:initial|merge)\))?: "),
    "amended": re.compile(r"commit \(amend\): "),
    "cherry-picked": re.compile(r"cherry-pick: "),
    "merge": re.compile(r"merge [^:]*: "),
    "rebase": re.compile(r"rebase (?:\(finish\)|finished): "),
}
_PULL_URL: Final = re.compile(r"https?://[^\s\"'<>]{1,200}?/(?:pull|pulls|pull-requests|merge_requests)/(\d{1,12})")
_PULL_NUMBER: Final = re.compile(r"(?:^|[\s/(])(?:[\w.-]{1,100}/[\w.-]{1,100})?[#!](\d{1,12})\b")
_PULL_API: Final = re.compile(
    r"(?:^|/)repos/[^/\s]+/[^/\s]+/pulls/?(?:\?.*)?$|/projects/[^/\s]+/merge_requests/?(?:\?.*)?$"
    r"|/repositories/[^/\s]+/[^/\s]+/pullrequests/?(?:\?.*)?$"
)
_API_URL: Final = re.compile(
    r'"(?:html_url|web_url)"\s*:\s*"(https?://[^"\s]{1,200}?/(?:pull|pulls|merge_requests)/(\d{1,12}))"'
)

_COMMIT_SKIPS: Final = frozenset({"--dry-run", "--short", "--porcelain", "--long"})
_UNDOES: Final = frozenset({"--abort", "--quit", "--skip", "--no-commit", "--squash", "--edit-todo"})
_NO_COMMIT: Final = re.compile(r"-[ersx]*n[ersx]*\Z")
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


def git_changes(command: str, output: str, moves: Sequence[Move] = ()) -> GitChanges | None:
    """For a command that ended with exit code 0; null where it did nothing of the kind.

    `moves` are what the repository itself noted: a command may have said nothing, or to nobody.
    """
    if _PROGRAMS.search(command) is None:
        return None
    return changes_of(_simple_commands(command), output, moves)


def changes_of(ran: Iterable[Words], output: str, moves: Sequence[Move] = ()) -> GitChanges | None:
    """The same for commands that are taken apart already."""
    if len(output) > 2 * _MAX_CHARS:
        output = f"{output[:_MAX_CHARS]}\n{output[-_MAX_CHARS:]}"
    found: dict[str, Commit | Push | Branch | Pull] = {}
    for words in ran:
        for change in _of_one(words, output, moves):
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


def _simple_commands(command: str) -> Iterator[Words]:
    """With git's own options left out, and what runs inside wrappers included."""
    for part in commands.read_command(command).parts:
        for inner in commands.unwrapped(part):
            yield inner.words


def _of_one(words: Words, output: str, moves: Sequence[Move]) -> Iterator[Commit | Push | Branch | Pull]:
    match list(words[:3]):
        case ["git", str(subcommand), *_]:
            yield from _of_git(subcommand, words[2:], output, moves)
        case ["gh", "pr", str(action)] if action in _PULL_ACTIONS:
            yield from _pull(_PULL_ACTIONS[action], words[3:], output)
        case ["glab", "mr", "create" | "new"]:
            yield from _pull("created", words[3:], output)
        case ["curl", *_] if _posts(words[1:], _SENDS) and any(map(_is_pull_api, words[1:])):
            yield from _created_by_api(output)
        case ["gh", "api", *_] if _posts(words[2:], _FIELDS) and any(map(_is_pull_api, words[2:])):
            yield from _created_by_api(output)


def _of_git(subcommand: str, arguments: Words, output: str, moves: Sequence[Move]) -> Iterator[Commit | Push | Branch]:
    match subcommand:
        case "commit" if not _COMMIT_SKIPS & set(arguments):
            yield from _commit("amended" if "--amend" in arguments else "committed", output, moves)
        case "cherry-pick" if not _UNDOES & set(arguments) and not any(map(_is_no_commit, arguments)):
            yield from _commit("cherry-picked", output, moves)
        case "push" if not {"-n", "--dry-run", "-d", "--delete"} & set(arguments):
            yield from _push(arguments, output)
        case "merge" if not _UNDOES & set(arguments) and (_MERGED.search(output) or _noted("merge", moves)):
            yield from _branch("merge", "merged", arguments)
        case "rebase" if not _UNDOES & set(arguments) and (_REBASED.search(output) or _noted("rebase", moves)):
            yield from _branch("rebase", "rebased", arguments)


def _is_no_commit(word: str | None) -> bool:
    return word is not None and _NO_COMMIT.match(word) is not None


def _commit(kind: CommitKind, output: str, moves: Sequence[Move]) -> Iterator[Commit]:
    shas = _COMMITTED.findall(output) or [move.sha for move in moves if _NOTED[kind].match(move.what)]
    if shas:
        yield Commit(sha=shas[-1], kind=kind)


def _noted(what: str, moves: Sequence[Move]) -> bool:
    return any(_NOTED[what].match(move.what) for move in moves)


def _push(arguments: Words, output: str) -> Iterator[Push]:
    told = [plain or porcelain for plain, porcelain in _PUSHED.findall(output)]
    if told:
        yield Push(branch=told[-1])
        return
    quiet = {"-q", "--quiet"} & set(arguments)
    named = _operands("push", arguments)[1:]
    if quiet and named and _NOTHING_PUSHED.search(output) is None:
        branch = named[-1].lstrip("+").rpartition(":")[2].removeprefix("refs/heads/")
        if branch and not branch.startswith("refs/"):
            yield Push(branch=branch)


def _branch(subcommand: str, action: BranchAction, arguments: Words) -> Iterator[Branch]:
    operands = _operands(subcommand, arguments)
    onto = _value_of("--onto", arguments) if subcommand == "rebase" else None
    if onto or operands:
        yield Branch(ref=onto or operands[0], action=action)


def _pull(action: PullAction, arguments: Words, output: str) -> Iterator[Pull]:
    found = _last(_PULL_URL, output)
    if found is not None:
        yield Pull(number=int(found[1]), url=found[0], action=action)
        return
    if action == "created":
        return  # without an address there is nothing to link to
    named = next(iter(_operands("pull", arguments)), "")
    url = _PULL_URL.match(named)
    told = _PULL_NUMBER.search(output)
    number = url[1] if url else named.removeprefix("#") if named.removeprefix("#").isdecimal() else told and told[1]
    yield Pull(number=int(number) if number else None, url=url[0] if url else None, action=action)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    return found


def _is_pull_api(word: str | None) -> bool:
    return word is not None and _PULL_API.search(word) is not None


def _posts(arguments: Words, sends: Sequence[str]) -> bool:
    """Said so, or implied by what is sent."""
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


def _created_by_api(output: str) -> Iterator[Pull]:
    # The first: what is inside of it (its branches, who made it) comes later.
    found = _API_URL.search(output)
    if found is not None:
        yield Pull(number=int(found[2]), url=found[1], action="created")


def _operands(subcommand: str, arguments: Words) -> list[str]:
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


def _value_of(option: str, arguments: Words) -> str | None:
    for place, word in enumerate(arguments):
        if word == option and place + 1 < len(arguments):
            return arguments[place + 1]
        if word is not None and word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None
