"""A session's desk: what it remembers, and when it stops to believe."""

from pathlib import Path

import pytest

from ostler.server.classifier import ClassifierDesk, RehearsalClassifier
from tests.server.classifier.judging import Table, classifier_of, question, verdict
from tests.support.messages_api.failures import overloaded
from tests.support.messages_api.scripts import attempts
from tests.support.messages_api.server import ScriptedApi

pytestmark = pytest.mark.anyio


async def test_the_same_question_is_asked_once(api: ScriptedApi, folder: Path) -> None:
    api.always(verdict("allow", "tests"))
    async with classifier_of(api.url) as classifier:
        desk = ClassifierDesk(classifier)
        first, second = [await desk.classify(question("make", folder)) for _ in range(2)]
    assert (first.cached, second.cached, len(api.requests)) == (False, True, 1)
    assert (second.behavior, second.reason, second.duration_ms) == ("allow", "tests", 0)


async def test_another_context_is_another_question(folder: Path) -> None:
    table = Table(make="allow")
    desk = ClassifierDesk(table)
    asked = question("make", folder)
    changes = [
        question("make all", folder),
        question("make", folder / "src"),
        question("make", folder, roots=(str(folder), str(folder / "src"))),
        question("make", folder, task="Delete everything."),
        question("make", folder, tool="Monitor"),
        question("make", folder, read_only=True),
    ]
    for each in (asked, *changes, asked, *changes):
        await desk.classify(each)
    assert len(table.asked) == 1 + len(changes)


async def test_parts_of_a_question_cannot_stand_for_each_other(folder: Path) -> None:
    table = Table(make="allow")
    desk = ClassifierDesk(table)
    await desk.classify(question("make ', folder='x", folder))
    await desk.classify(question("make ", folder, task="', folder='x"))
    assert len(table.asked) == 2


async def test_whoever_asked_is_asked_again(api: ScriptedApi, folder: Path) -> None:
    api.always(attempts(overloaded(), verdict("ask"), verdict("allow")))
    async with classifier_of(api.url) as classifier:
        desk = ClassifierDesk(classifier)
        said = [(await desk.classify(question("make", folder))).behavior for _ in range(3)]
    assert said == ["ask", "ask", "allow"]


async def test_the_memory_is_bounded_and_forgets_what_was_not_used(folder: Path) -> None:
    table = Table(make="allow")
    desk = ClassifierDesk(table, remembered=2)
    for text in ("make a", "make b", "make a", "make c", "make a", "make b"):
        await desk.classify(question(text, folder))
    assert table.asked == ["make a", "make b", "make c", "make b"]


async def test_a_remembered_allow_ends_when_a_link_leads_outside(folder: Path, tmp_path: Path) -> None:
    desk = ClassifierDesk(Table(touch="allow"))
    (folder / "out").mkdir()
    assert (await desk.classify(question("touch out/x", folder))).behavior == "allow"
    (folder / "out").rmdir()
    (folder / "out").symlink_to(tmp_path)
    opinion = await desk.classify(question("touch out/x", folder))
    assert (opinion.behavior, opinion.reason) == ("ask", "High risk: it writes or deletes outside the project.")


async def test_after_three_denials_in_a_row_a_person_is_asked(folder: Path) -> None:
    desk = ClassifierDesk(Table(bad="deny", good="allow", odd="ask"))

    async def said(*texts: str) -> list[str]:
        return [(await desk.classify(question(text, folder))).behavior for text in texts]

    assert await said("bad 1", "bad 2", "odd", "bad 3") == ["deny", "deny", "ask", "deny"]
    assert await said("bad 4", "bad 1") == ["ask", "ask"]
    desk.person_answered()
    assert await said("bad 4", "good", "bad 1", "bad 2", "bad 3", "bad 4") == [
        "deny", "allow", "deny", "deny", "deny", "ask"
    ]  # fmt: skip


async def test_an_opinion_that_decided_nothing_is_not_counted(folder: Path) -> None:
    desk = ClassifierDesk(Table(bad="deny"))
    for number in range(5):
        await desk.consider(question(f"bad {number}", folder))
    assert (await desk.classify(question("bad", folder))).behavior == "deny"


async def test_the_stand_in_is_remembered_alike(folder: Path) -> None:
    desk = ClassifierDesk(RehearsalClassifier())
    said = [await desk.classify(question("make test", folder)) for _ in range(2)]
    assert [(opinion.behavior, opinion.cached) for opinion in said] == [("allow", False), ("allow", True)]
