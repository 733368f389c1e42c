"""Parsing of verdicts: nothing that a model writes but a valid object lets a call pass."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler.server.classifier.model import read_verdict
from tests.server.classifier.judging import make_question, open_classifier
from tests.support.examples import count_examples
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi

_VALUES = st.sampled_from(
    ["allow", "deny", "ask", "ALLOW", "allow ", "", True, None, 1, ["allow"], {"verdict": "allow"}]
)
_OBJECTS = st.dictionaries(st.sampled_from(["verdict", "reason", "Verdict", "x"]), _VALUES, max_size=4).map(json.dumps)
_VALID = st.text(min_size=1, max_size=20).map(lambda reason: json.dumps({"verdict": "allow", "reason": reason}))


@st.composite
def _damaged(draw: st.DrawFn) -> str:
    """A valid answer with a part replaced, which may leave it as it is."""
    text = draw(_VALID)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return text[:start] + draw(st.text(alphabet='{}[]",: alow\\\n\x00', max_size=3)) + text[end:]


_REPEATED = st.lists(
    st.sampled_from(['"verdict": "allow"', '"verdict": "deny"', '"reason": "x"', '"reason": ""']), max_size=4
).map(lambda pairs: "{" + ", ".join(pairs) + "}")
REPLIES = st.one_of(
    st.text(max_size=100),
    _OBJECTS,
    _damaged(),
    _REPEATED,
    _VALID,
    st.tuples(_VALID, _VALID).map("".join),
    st.tuples(st.text(max_size=5), _VALID, st.text(max_size=5)).map("".join),
)


def is_valid_allow(text: str) -> bool:
    """The same check as the product's, written independently of it."""
    try:
        pairs: Any = json.loads(text, object_pairs_hook=lambda found: ("object", sorted(map(repr, found)), found))
    except ValueError:
        return False
    if not isinstance(pairs, tuple) or len(pairs[2]) != 2:
        return False
    found = dict(pairs[2])
    reason = found.get("reason")
    return found.get("verdict") == "allow" and isinstance(reason, str) and reason.strip() != ""


@settings(max_examples=count_examples(1_000), deadline=None)
@given(REPLIES)
def test_only_a_valid_allow_object_is_read_as_allow(text: str) -> None:
    verdict = read_verdict(text)
    assert (verdict is not None and verdict.behavior == "allow") == is_valid_allow(text)


def test_no_reply_but_a_valid_allow_object_lets_a_call_pass(folder: Path) -> None:
    with ScriptedApi() as api, asyncio.Runner() as runner:
        stack = AsyncExitStack()
        classifier = runner.run(stack.enter_async_context(open_classifier(api.url)))

        @settings(max_examples=count_examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(REPLIES)
        def holds(text: str) -> None:
            api.always(message(says(text)))
            opinion = runner.run(classifier.classify(make_question("make", folder)))
            assert (opinion.behavior == "allow") == is_valid_allow(text)

        holds()
        runner.run(stack.aclose())
        assert not api.violations
