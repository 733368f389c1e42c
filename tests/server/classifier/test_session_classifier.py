"""The classifier of a session: which opinions it caches, and after how many denials it asks a person."""

from pathlib import Path

import pytest

from ostler.server.classifier import RehearsalClassifier, SessionClassifier
from tests.server.classifier.judging import TableClassifier, make_question, make_verdict_reply, open_classifier
from tests.support.messages_api.failures import overloaded
from tests.support.messages_api.scripts import attempts
from tests.support.messages_api.server import ScriptedApi

pytestmark = pytest.mark.anyio


async def test_the_same_question_is_asked_once(api: ScriptedApi, folder: Path) -> None:
    api.always(make_verdict_reply("allow", "tests"))
    async with open_classifier(api.url) as classifier:
        session_classifier = SessionClassifier(classifier)
        first, second = [await session_classifier.classify(make_question("make", folder)) for _ in range(2)]
    assert (first.cached, second.cached, len(api.requests)) == (False, True, 1)
    assert (second.behavior, second.reason, second.duration_ms) == ("allow", "tests", 0)


async def test_another_context_is_another_question(folder: Path) -> None:
    table = TableClassifier(make="allow")
    session_classifier = SessionClassifier(table)
    asked = make_question("make", folder)
    changes = [
        make_question("make all", folder),
        make_question("make", folder / "src"),
        make_question("make", folder, roots=(str(folder), str(folder / "src"))),
        make_question("make", folder, last_input="Delete everything."),
        make_question("make", folder, tool="Monitor"),
        make_question("make", folder, read_only=True),
    ]
    for each in (asked, *changes, asked, *changes):
        await session_classifier.classify(each)
    assert len(table.asked_texts) == 1 + len(changes)


async def test_parts_of_a_question_cannot_stand_for_each_other(folder: Path) -> None:
    table = TableClassifier(make="allow")
    session_classifier = SessionClassifier(table)
    await session_classifier.classify(make_question("make ', folder='x", folder))
    await session_classifier.classify(make_question("make ", folder, last_input="', folder='x"))
    assert len(table.asked_texts) == 2


async def test_whoever_asked_is_asked_again(api: ScriptedApi, folder: Path) -> None:
    api.always(attempts(overloaded(), make_verdict_reply("ask"), make_verdict_reply("allow")))
    async with open_classifier(api.url) as classifier:
        session_classifier = SessionClassifier(classifier)
        said = [(await session_classifier.classify(make_question("make", folder))).behavior for _ in range(3)]
    assert said == ["ask", "ask", "allow"]


async def test_the_memory_is_bounded_and_forgets_what_was_not_used(folder: Path) -> None:
    table = TableClassifier(make="allow")
    session_classifier = SessionClassifier(table, remembered=2)
    for text in ("make a", "make b", "make a", "make c", "make a", "make b"):
        await session_classifier.classify(make_question(text, folder))
    assert table.asked_texts == ["make a", "make b", "make c", "make b"]


async def test_a_remembered_allow_ends_when_a_link_leads_outside(folder: Path, tmp_path: Path) -> None:
    session_classifier = SessionClassifier(TableClassifier(touch="allow"))
    (folder / "out").mkdir()
    assert (await session_classifier.classify(make_question("touch out/x", folder))).behavior == "allow"
    (folder / "out").rmdir()
    (folder / "out").symlink_to(tmp_path)
    opinion = await session_classifier.classify(make_question("touch out/x", folder))
    assert (opinion.behavior, opinion.reason) == ("ask", "High risk: it writes or deletes outside the project.")


async def test_after_three_denials_in_a_row_a_person_is_asked(folder: Path) -> None:
    session_classifier = SessionClassifier(TableClassifier(bad="deny", good="allow", odd="ask"))

    async def classify_texts(*texts: str) -> list[str]:
        return [(await session_classifier.classify(make_question(text, folder))).behavior for text in texts]

    assert await classify_texts("bad 1", "bad 2", "odd", "bad 3") == ["deny", "deny", "ask", "deny"]
    assert await classify_texts("bad 4", "bad 1") == ["ask", "ask"]
    session_classifier.reset_denials()
    assert await classify_texts("bad 4", "good", "bad 1", "bad 2", "bad 3", "bad 4") == [
        "deny", "allow", "deny", "deny", "deny", "ask"
    ]  # fmt: skip


async def test_an_opinion_that_decided_nothing_is_not_counted(folder: Path) -> None:
    session_classifier = SessionClassifier(TableClassifier(bad="deny"))
    for number in range(5):
        await session_classifier.consider(make_question(f"bad {number}", folder))
    assert (await session_classifier.classify(make_question("bad", folder))).behavior == "deny"


async def test_the_stand_in_is_remembered_alike(folder: Path) -> None:
    session_classifier = SessionClassifier(RehearsalClassifier())
    said = [await session_classifier.classify(make_question("make test", folder)) for _ in range(2)]
    assert [(opinion.behavior, opinion.cached) for opinion in said] == [("allow", False), ("allow", True)]
