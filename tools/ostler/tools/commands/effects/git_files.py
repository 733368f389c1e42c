"""Says what git does to files, from its words: what it shows of them, and what it writes, moves and deletes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from ostler.tools.commands.effects.file_targets import (
    Effect,
    FileAction,
    FileTarget,
    MentionedText,
    RepositoryRead,
    Transfer,
    UnknownEffect,
)
from ostler.tools.commands.syntax.parsed import SimpleCommand, make_literal_word
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import change_folders

_GLOBAL_FLAGS: Final = frozenset({
    "--no-pager", "--paginate", "-p", "-P", "--no-replace-objects", "--literal-pathspecs", "--no-optional-locks",
    "--no-lazy-fetch", "--no-advice", "--icase-pathspecs", "--glob-pathspecs", "--noglob-pathspecs",
})  # fmt: skip
_SHOWS_NO_CONTENT: Final = frozenset({
    "branch", "bugreport", "check-attr", "check-ignore", "check-mailmap", "check-ref-format", "cherry", "commit",
    "commit-graph", "commit-tree", "count-objects", "describe", "diagnose", "fetch", "for-each-ref", "fsck", "gc",
    "help", "init-db", "interpret-trailers", "ls-files", "ls-remote", "ls-tree", "maintenance", "merge-base", "mktag",
    "mktree", "multi-pack-index", "name-rev", "pack-refs", "prune", "push", "remote", "repack", "replace", "rerere",
    "rev-list", "rev-parse", "shortlog", "show-branch", "show-ref", "status", "symbolic-ref", "tag", "update-index",
    "update-ref", "var", "verify-commit", "verify-tag", "version", "write-tree",
})  # fmt: skip
"""What shows names, commits and their messages, and changes nothing but git's own store."""
_SHOWS_CONTENT: Final = frozenset({
    "annotate", "archive", "blame", "cat-file", "diff-files", "diff-index", "diff-tree", "difftool",
    "fast-export", "format-patch", "grep", "range-diff", "request-pull", "send-email", "show", "unpack-file",
    "whatchanged",
})  # fmt: skip
_CHANGES_TREE: Final = frozenset({
    "am", "apply", "bisect", "checkout-index", "cherry-pick", "citool", "filter-branch", "gui", "merge", "merge-file",
    "merge-index", "merge-tree", "mergetool", "pull", "quiltimport", "read-tree", "rebase", "revert", "sparse-checkout",
    "submodule", "subtree", "switch",
})  # fmt: skip
"""What writes files whose names stand in commits or patches."""
_LOG_WITHOUT_CONTENT: Final = frozenset({
    "--oneline", "--graph", "--all", "--author", "--committer", "--since", "--until", "--after", "--before", "--stat",
    "--name-only", "--name-status", "--decorate", "--no-decorate", "--format", "--pretty", "--no-merges", "--merges",
    "--follow", "--grep", "--first-parent", "--reverse", "--abbrev-commit", "--abbrev", "--date", "--shortstat",
    "--numstat", "--summary", "--max-count", "--skip", "--branches", "--tags", "--remotes", "--topo-order",
    "--no-patch", "--date-order", "--cached", "--staged", "--no-color", "--color", "--quiet", "--exit-code",
    "--merge-base", "--diff-filter", "--no-renames", "--find-renames", "--no-ext-diff", "--no-textconv", "--dirstat",
    "--compact-summary", "--left-right", "--no-walk",
})  # fmt: skip
_NAMES_ALONE: Final = frozenset({
    "--stat", "--name-only", "--name-status", "--shortstat", "--numstat", "--summary", "--quiet", "--dirstat",
    "--compact-summary", "--no-patch",
})  # fmt: skip
_TAKES_PATHS: Final = frozenset({"diff", "grep", "log", "show", "whatchanged"})
"""What shows only the paths that it is given after `--`."""
_REFUSES_DOUBTS: Final = frozenset({"diff", "log", "show", "whatchanged"})
"""What refuses an operand that is both a path and a revision, unless `--` says which."""
_MAGIC: Final = frozenset("*?[\\")
_HERE: Final = make_literal_word(".")


def list_git_effects(part: SimpleCommand) -> Iterator[Effect]:
    """What a git command does to files; what its aliases or hooks do is not known."""
    at, rest, problem = _take_global_options(part)
    if problem is not None or not rest or rest[0].kind != "literal":
        yield UnknownEffect(f"it is not known what {problem or 'this git'} does", reads=True, writes=True)
        yield from (MentionedText(token.text or token.source, part.folders) for token in part.tokens[1:])
        return
    name = rest[0].text
    if at is not part:
        # It works in the folder of `-C`, whatever files it touches there.
        yield FileTarget(None, at.folders, "read", lists=True)
    arguments = _Arguments(name, at, rest[1:])
    yield from _list_output_files(arguments)
    handler = _SUBCOMMANDS.get(name)
    if handler is not None:
        yield from handler(arguments)
    elif name in _SHOWS_CONTENT:
        yield from _list_shown(arguments)
    elif name in _CHANGES_TREE:
        yield from _list_changed(name, arguments)
    elif name not in _SHOWS_NO_CONTENT:
        yield UnknownEffect(f"it is not known what git {name} does", reads=True, writes=True)
        yield from (MentionedText(token.text or token.source, part.folders) for token in rest[1:])
    else:
        yield from _list_message_files(arguments)


def _take_global_options(part: SimpleCommand) -> tuple[SimpleCommand, list[Word], str | None]:
    """The part in the folder that `-C` leads to, the words from the subcommand on, and an option that hides more."""
    rest, at = list(part.tokens[1:]), part
    while rest and rest[0].kind == "literal" and rest[0].text.startswith("-"):
        text = rest.pop(0).text
        if text == "-C":
            at = replace(at, folders=change_folders(at.folders, rest.pop(0).literal if rest else None))
        elif text in {"--version", "--help", "--exec-path", "--html-path", "--man-path", "--info-path"}:
            return at, [make_literal_word("version")], None
        elif text not in _GLOBAL_FLAGS:
            return at, rest, text
    return at, rest or [make_literal_word("help")], None


class _Arguments:
    """What follows a subcommand: its options, its operands, and which of these can only be paths."""

    __slots__ = ("at", "name", "operands", "options", "paths", "words")

    def __init__(self, name: str, at: SimpleCommand, words: Sequence[Word]) -> None:
        self.name = name
        self.at = at
        self.words = list(words)
        dashes = next((place for place, word in enumerate(words) if word.literal == "--"), None)
        before = self.words if dashes is None else self.words[:dashes]
        self.paths: list[Word] | None = None if dashes is None else self.words[dashes + 1 :]
        self.options = [word for word in before if word.kind == "literal" and word.text.startswith("-")]
        # The value of an option counts among them: better one path too many than one too few.
        self.operands = [word for word in before if not (word.kind == "literal" and word.text.startswith("-"))]

    @property
    def named(self) -> list[Word]:
        """All operands, of which some may be revisions."""
        return [*self.operands, *(self.paths or ())]

    def has(self, *names: str) -> bool:
        """Whether it has one of these options; long ones may be abbreviated, letters stand alone."""
        return any(_is_option(word.text, name) for word in self.options for name in names)

    def find_paths(self) -> tuple[list[Word], bool] | None:
        """The words that may limit it to paths, and whether they can be nothing else; None where nothing does."""
        if self.has("--follow"):
            return None  # a file had another name before
        if self.paths and self.name in _TAKES_PATHS:
            return self.paths, True
        if self.paths is not None or self.name not in _REFUSES_DOUBTS:
            return None
        valued = any(
            word.text.startswith("-") and not following.text.startswith("-") for word, following in pairwise(self.words)
        )
        return None if valued or not self.operands else (self.operands, False)

    def list_values(self, *names: str) -> list[Word]:
        """The values of options, attached or in the next word."""
        found = list[Word]()
        for place, word in enumerate(self.words):
            following = self.words[place + 1] if place + 1 < len(self.words) else None
            for name in names:
                if word.text == name and following is not None:
                    found.append(following)
                elif name.startswith("--") and word.text.startswith(f"{name}="):
                    found.append(make_literal_word(word.text.partition("=")[2]))
                elif not name.startswith("--") and word.text.startswith(name) and len(word.text) > len(name):
                    found.append(make_literal_word(word.text[len(name) :]))
                elif not name.startswith("--") and following is not None and _ends_bundle(word.text, name):
                    found.append(following)
        return found

    def target(self, word: Word | None, action: FileAction, *, deep: bool = False, tracked: bool = False) -> FileTarget:
        return FileTarget(word, self.at.folders, action, deep, tracked=tracked)


def _ends_bundle(text: str, name: str) -> bool:
    """`-qo`: the last letter of several takes the next word."""
    return text[:1] == "-" and text[1:].isalpha() and text.endswith(name[1:])


def _is_option(text: str, name: str) -> bool:
    if name.startswith("--"):
        written = text.partition("=")[0]
        return written == name or (len(written) > 3 and name.startswith(written))
    return text == name


def _list_output_files(given: _Arguments) -> Iterator[Effect]:
    for word in given.list_values("-o", "--output", "--output-directory"):
        yield given.target(word, "write", deep=given.name == "format-patch", tracked=True)
    if given.has("--pathspec-from-file"):
        yield UnknownEffect("its paths are read from a file", reads=True, writes=True)


def _list_message_files(given: _Arguments) -> Iterator[Effect]:
    """`-F FILE`: its text becomes a message, which is shown later. Other operands name refs, or paths by name alone."""
    for word in given.list_values("-F", "--file", "--template", "--exclude-from", "-X", "--contents"):
        yield given.target(word, "read")
    for word in given.named if given.name in _REFUSES_DOUBTS else given.paths or ():
        yield replace(given.target(word, "read", deep=True), lists=True)


def _list_shown(given: _Arguments) -> Iterator[Effect]:
    """Contents from the store, and those of the files that are named."""
    if given.has("--no-index"):
        # The first operand of grep is a pattern.
        yield from (given.target(word, "read", deep=True) for word in given.named)
        if given.name == "grep" or not given.named:
            yield given.target(None, "read", deep=True)
        return
    yield from (given.target(word, "read") for word in given.list_values("-f", "-F", "--file", "--contents"))
    for word in given.named:
        yield from _list_named_content(given, word)
    for word in given.list_values("-L"):
        yield given.target(make_literal_word(word.text.rpartition(":")[2]), "read")
    if given.name in {"annotate", "blame"}:
        return  # what it shows is the file that it names
    words, only_paths = given.find_paths() or ((), False)
    yield RepositoryRead(tuple(words), only_paths, given.at.folders)


def _list_named_content(given: _Arguments, word: Word) -> Iterator[Effect]:
    """`path`, `HEAD:path` from the top, `HEAD:./path` from here, and `:/path` and `:!path`."""
    before, colon, path = word.text.rpartition(":")
    yield given.target(word, "read", deep=True)
    if colon and path:
        inner = Word(word.source, path, word.kind)
        yield given.target(inner, "read", deep=True)
        yield FileTarget(Word(word.source, path.lstrip("/"), word.kind), given.at.folders, "read", True, from_top=True)
    elif before:
        yield FileTarget(_HERE, given.at.folders, "read", deep=True, from_top=True)


def _list_diff(given: _Arguments) -> Iterator[Effect]:
    names_alone = any(word.text.partition("=")[0] in _NAMES_ALONE for word in given.options)
    yield from _list_message_files(given) if names_alone and _shows_no_content(given) else _list_shown(given)


def _list_log(given: _Arguments) -> Iterator[Effect]:
    yield from _list_message_files(given) if _shows_no_content(given) else _list_shown(given)


def _shows_no_content(given: _Arguments) -> bool:
    return all(
        word.text.partition("=")[0] in _LOG_WITHOUT_CONTENT or _is_count(word.text) for word in given.options
    ) and not any(word.kind == "unknown" for word in given.words)


def _is_count(text: str) -> bool:
    return text in {"-n", "-s", "-z", "-i", "-S", "-G"} or text.lstrip("-n").isdecimal()


def _list_stash(given: _Arguments) -> Iterator[Effect]:
    what = given.operands[0].literal if given.operands else "push"
    if what == "show":
        yield from _list_shown(given)
    elif what not in {"list", "drop", "clear", "create", "store"}:
        yield UnknownEffect("the files that it puts away or brings back are known only when it runs", writes=True)


def _list_changed(name: str, given: _Arguments) -> Iterator[Effect]:
    if name in {"apply", "am"}:
        yield from (given.target(word, "read") for word in given.named)
        if given.has("--check", "--stat", "--numstat", "--summary") and not given.has("--apply"):
            return
    if name in {"merge-file", "merge-tree", "checkout-index", "merge-index"}:
        yield from _list_shown(given)
    yield UnknownEffect(f"the files that git {name} writes stand in commits or patches", writes=True)
    if name in {"rebase", "bisect", "submodule", "filter-branch", "difftool", "mergetool", "subtree"}:
        yield from (MentionedText(word.text or word.source, given.at.folders) for word in given.words)


def _list_checkout(given: _Arguments) -> Iterator[Effect]:
    if given.paths is not None:
        yield from (given.target(word, "write", deep=True, tracked=True) for word in given.paths)
        yield from _report_magic(given.paths)
        return
    new = given.list_values("-b", "-B", "--orphan")
    if new and len(given.operands) == 1:
        return
    # Each operand may be a branch, whose files are known only when it runs, or a path.
    yield from (given.target(word, "write", deep=True, tracked=True) for word in given.operands)
    yield UnknownEffect("the files that differ are known only when it runs", writes=True)


def _list_restore(given: _Arguments) -> Iterator[Effect]:
    if given.has("--staged", "-S") and not any("W" in word.text or "--w" in word.text for word in given.options):
        return
    yield from (given.target(word, "write", deep=True, tracked=True) for word in given.named)
    yield from _report_magic(given.named)


def _list_removed(given: _Arguments) -> Iterator[Effect]:
    if given.has("--cached"):
        return
    yield from (given.target(word, "delete", deep=True, tracked=True) for word in given.named)
    yield from _report_magic(given.named)


def _report_magic(words: Sequence[Word]) -> Iterator[Effect]:
    if any(word.text.startswith(":") or (word.kind == "literal" and _MAGIC & set(word.text)) for word in words):
        yield UnknownEffect("git expands a pattern in it", reads=True, writes=True)


def _list_clean(given: _Arguments) -> Iterator[Effect]:
    letters = [word.text for word in given.options if set(word.text) <= set("-fdxXqn")]
    if any("n" in each for each in letters) or given.has("--dry-run"):
        return
    yield from (given.target(word, "delete", deep=True, tracked=True) for word in given.named or (None,))
    yield from _report_magic(given.named)


def _list_moved(given: _Arguments) -> Iterator[Effect]:
    if given.has("-n", "--dry-run"):
        return
    words = given.named
    if len(words) > 1:
        yield Transfer(tuple(words[:-1]), words[-1], given.at.folders, "move", deep=True)
    yield from _report_magic(words)


def _list_reset(given: _Arguments) -> Iterator[Effect]:
    if given.has("--hard", "--merge", "--keep"):
        yield UnknownEffect("the files that git reset brings back stand in commits", writes=True)


def _list_added(given: _Arguments) -> Iterator[Effect]:
    """What is named is copied to git's store; what lies below is looked at by name."""
    for word in given.named:
        yield given.target(word, "read")
        yield replace(given.target(word, "read", deep=True), lists=True)


def _list_hashed(given: _Arguments) -> Iterator[Effect]:
    yield from (given.target(word, "read") for word in given.named)
    if given.has("--stdin-paths"):
        yield UnknownEffect("its files are named on its input", reads=True)


def _list_config(given: _Arguments) -> Iterator[Effect]:
    files = given.list_values("-f", "--file", "--blob")
    yield from (given.target(word, "read") for word in files)
    verbs = {"set", "unset", "rename-section", "remove-section", "edit"}
    first = given.operands[0].literal if given.operands else None
    asks = given.has("--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch", "--get-color")
    changes = first in verbs or given.has("--add", "--unset", "--replace-all", "--remove-section", "--rename-section")
    if (len(given.operands) - len(files) > 1 and not asks and first not in {"get", "list"}) or changes:
        yield from (given.target(word, "write") for word in files)
        if given.has("--global"):
            yield FileTarget(Word("~/.gitconfig", "~/.gitconfig", "home"), given.at.folders, "write")
        elif not files and not given.has("--system"):
            config = make_literal_word(".git/config")
            yield FileTarget(config, given.at.folders, "write", from_top=True)


def _list_worktree(given: _Arguments) -> Iterator[Effect]:
    what = given.operands[0].literal if given.operands else None
    if what in {"add", "move"} and len(given.named) > 1:
        yield from (given.target(word, "create", deep=True, tracked=True) for word in given.named[1:2])
        yield from (given.target(word, "create") for word in given.named[2:] if what == "move")
        yield RepositoryRead((), False, given.at.folders)
    elif what == "remove":
        yield from (given.target(word, "delete", deep=True, tracked=True) for word in given.named[1:])


def _list_cloned(given: _Arguments) -> Iterator[Effect]:
    """A repository here is read; a template brings hooks along."""
    for word in given.list_values("--template"):
        yield given.target(word, "read", deep=True)
        yield given.target(make_literal_word(".git/hooks"), "write")
    operands = given.named
    yield from (given.target(word, "read", deep=True) for word in operands[:1])
    yield from (given.target(word, "create", deep=True, tracked=True) for word in operands[1:])
    if len(operands) == 1:
        name = operands[0].text.rstrip("/").removesuffix(".git").rstrip("/").rpartition("/")[2].rpartition(":")[2]
        yield given.target(make_literal_word(name), "create", deep=True, tracked=True)


def _list_initialised(given: _Arguments) -> Iterator[Effect]:
    yield from (given.target(word, "create") for word in given.named)
    for word in given.list_values("--template"):
        yield given.target(word, "read", deep=True)
        for at in given.named or [_HERE]:
            yield given.target(make_literal_word(f"{at.text}/.git/hooks"), "write")


def _list_bundled(given: _Arguments) -> Iterator[Effect]:
    files = given.named[1:2]
    creates = bool(given.named) and given.named[0].literal == "create"
    yield from (given.target(word, "write" if creates else "read") for word in files)
    yield RepositoryRead((), False, given.at.folders)


_SUBCOMMANDS: Final[dict[str, Callable[[_Arguments], Iterator[Effect]]]] = {
    "add": _list_added,
    "stage": _list_added,
    "bundle": _list_bundled,
    "checkout": _list_checkout,
    "clean": _list_clean,
    "clone": _list_cloned,
    "config": _list_config,
    "diff": _list_diff,
    "hash-object": _list_hashed,
    "init": _list_initialised,
    "log": _list_log,
    "mv": _list_moved,
    "reflog": _list_log,
    "reset": _list_reset,
    "restore": _list_restore,
    "rm": _list_removed,
    "stash": _list_stash,
    "worktree": _list_worktree,
}
