"""Compacts one session's conversation: clears old results, or asks for a summary, and stores what stands in its place.

Nothing is stored before all of it is known: whoever stops it in the middle, a person or a crash, leaves everything as
it was.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final, Literal, Protocol

import anyio

from ostler.protocol import times
from ostler.protocol.config import Config
from ostler.protocol.events import ContextCompacted, ModelRetry, Notice
from ostler.protocol.ids import TurnId, new_message_id
from ostler.protocol.shapes import Message, Usage
from ostler.server.engine.compaction.summary import NoSummary, PlanRetry, RequestHead, SummaryWriter
from ostler.server.engine.compaction.survivors import find_last_request, read_survivors, render_survivors
from ostler.server.engine.context.accounting import compute_threshold
from ostler.server.engine.context.clearing import choose_cleared, find_dangling, list_cleared_files
from ostler.server.engine.context.rows import Row, decode_rows, group_places, sum_tokens
from ostler.server.engine.context.tail import compute_tail_tokens, find_tail
from ostler.server.engine.discovery.references import replace_references
from ostler.server.engine.session.history import History
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.models.provider import Provider
from ostler.server.prompt.environment import EnvironmentFacts
from ostler.storage.repositories.messages import replace_results
from ostler.tools.threads import change_in_thread, read_in_thread
from ostler.tools.token_estimate import BYTES_PER_TOKEN, estimate_block

Trigger = Literal["auto", "manual"]
_OPENING: Final = (
    "<ostler-summary>\n"
    "The conversation until here was too long for your window, and this stands in its place. The person sees all of "
    "it; you have what follows, and the messages after it word for word. Go on with the work as if nothing had "
    "happened: do not speak of this summary, and do not ask what was answered already. Read files again before you "
    "rely on details of them.\n"
)
_CLOSING: Final = "\n</ostler-summary>"
_AFTER_ALL: Final = 1 << 62
"""A position that no message has: none of those before a summary is sent any more."""
_LEAST_TOKENS: Final = 500
"""Less than this is not summarised: a summary is not shorter."""
_LEAST_SHRINK: Final = 0.95
"""A compaction that leaves more than this share of the conversation is none."""


class CompactionFailed(Exception):
    """The conversation could not be made shorter; the message says why."""


class NothingToCompact(CompactionFailed):
    """There is nothing in it that could go."""


class CompactionBlocked(CompactionFailed):
    """A hook does not want it."""


class ModelServices(Protocol):
    """What is asked about models."""

    @property
    def provider(self) -> Callable[[str], Provider]: ...
    @property
    def config(self) -> Callable[[], Config]: ...
    @property
    def cost(self) -> Callable[[str, Usage], Decimal | None]: ...
    @property
    def max_output(self) -> Callable[[str], int]: ...
    @property
    def window(self) -> Callable[[str], int]: ...


@dataclass(frozen=True, slots=True)
class CompactionWish:
    """What is asked for."""

    trigger: Trigger
    instructions: str | None = None
    """A person's words for the summary."""
    notes: Sequence[str] = ()
    """Further blocks that must survive, as the form that an answer shall have."""
    turn_id: TurnId | None = None


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts the conversation of a session, as the requests of its turns begin."""

    session: LiveSession
    services: ModelServices
    head: RequestHead
    plan_retry: PlanRetry
    load_facts: Callable[[LiveSession], EnvironmentFacts | None]
    """The facts about the environment that the model was told last."""

    @property
    def window(self) -> int:
        return self.services.window(self.head.model)

    @property
    def threshold(self) -> int:
        return compute_threshold(self.window, self._max_output, self.services.config())

    @property
    def _max_output(self) -> int:
        return min(self.services.config().model.max_output_tokens, self.services.max_output(self.head.model))

    def measure(self) -> int:
        """How much of the window the next request would take."""
        return self.session.context.measure(self.head.tokens, self.session.history.tokens).tokens

    def is_full(self) -> bool:
        return self.session.context.full or self.measure() > self.threshold

    async def compact(self, wish: CompactionWish, *, clear_first: bool) -> ContextCompacted:
        """Make it shorter. Raises CompactionFailed where that is not possible, and what the provider raises."""
        await self._run_hooks(wish)
        before = self.measure()
        rows = await self._load_rows()
        if clear_first:
            cleared = await read_in_thread(choose_cleared, rows)
            if cleared and self._measure_cleared(rows, cleared, before) <= self.threshold:
                return await self._finish(wish, await self._clear(wish, rows, cleared, before))
        return await self._finish(wish, await self._summarise(wish, rows, before))

    async def _run_hooks(self, wish: CompactionWish) -> None:
        hooks = SessionHooks(self.session, wish.turn_id)
        outcome = await hooks.fire("PreCompact", trigger=wish.trigger, custom_instructions=wish.instructions or "")
        if (reason := outcome.block or outcome.stop) is not None:
            raise CompactionBlocked(f"A hook does not want the conversation to be compacted: {reason}")

    async def _finish(self, wish: CompactionWish, done: ContextCompacted) -> ContextCompacted:
        await SessionHooks(self.session, wish.turn_id).fire("PostCompact", trigger=wish.trigger)
        return done

    async def _load_rows(self) -> list[Row]:
        """The conversation from memory, and where each message of it is stored."""
        journal, session_id = self.session.journal, self.session.record.id
        await journal.writes.write(lambda tx: None)  # what is queued must be there, too
        places = await journal.log.read(lambda snapshot: snapshot.messages.list_sent_places(session_id))
        positions, history = group_places(places), self.session.history
        if len(positions) == len(history):
            contents = history.list_contents()
            return await read_in_thread(
                lambda: decode_rows((at, *each) for at, each in zip(positions, contents, strict=True))
            )
        # Some stored message has nothing that could be sent, as thoughts that were cut: no one knows which is which.
        stored = await journal.log.read(lambda snapshot: snapshot.messages.load_for_model(session_id))
        return await read_in_thread(lambda: decode_rows((one.position, one.role, one.content) for one in stored))

    # Clearing.

    def _measure_cleared(self, rows: Sequence[Row], cleared: dict[str, str], before: int) -> int:
        gone = sum(
            estimate_block(block) - len(cleared[block["tool_use_id"]]) // BYTES_PER_TOKEN
            for row in rows
            for block in row.blocks
            if block["type"] == "tool_result" and block["tool_use_id"] in cleared
        )
        return before - self.session.context.scale(gone)

    async def _clear(
        self, wish: CompactionWish, rows: Sequence[Row], cleared: dict[str, str], before: int
    ) -> ContextCompacted:
        paths = await read_in_thread(list_cleared_files, rows, cleared)
        done = ContextCompacted(
            before_tokens=before,
            after_tokens=self._measure_cleared(rows, cleared, before),
            cleared_results=len(cleared),
            summarised=False,
            message_id=None,
            trigger=wish.trigger,
        )
        forgotten = await read_in_thread(self.session.reads.forget_shown_of, paths)
        journal = self.session.journal.compactions
        history = self.session.history.list_contents()
        await self._apply(
            lambda: journal.clear(wish.turn_id, cleared, forgotten, done), lambda: _clear_history(history, cleared)
        )
        return done

    # Summarising.

    async def _summarise(self, wish: CompactionWish, rows: Sequence[Row], before: int) -> ContextCompacted:
        start = find_tail(rows, compute_tail_tokens(self.window, rows))
        gone, kept = rows[:start], rows[start:]
        if sum_tokens(gone) < _LEAST_TOKENS:
            raise NothingToCompact("There is nothing in the conversation that a summary could make shorter.")
        message = await self._write_message(wish, gone, kept)
        dangling = await read_in_thread(find_dangling, kept, gone)
        taken = estimate_block(message.content[0].model_dump(mode="json")) + sum_tokens(kept)
        whole = sum_tokens(rows)
        if taken >= whole * _LEAST_SHRINK:
            raise CompactionFailed(
                f"The summary and what has to stay take {taken:,} tokens, and the conversation {whole:,}: "
                "nothing would be gained."
            )
        done = ContextCompacted(
            before_tokens=before,
            after_tokens=self.session.context.scale(self.head.tokens + taken),
            cleared_results=len(dangling),
            summarised=True,
            message_id=message.id,
            trigger=wish.trigger,
        )
        kept_from = kept[0].position if kept else _AFTER_ALL
        journal, forgotten = self.session.journal.compactions, self.session.reads.forget_shown()
        await self._apply(lambda: journal.summarise(message, kept_from, dangling, forgotten, done), None)
        return done

    async def _write_message(self, wish: CompactionWish, gone: Sequence[Row], kept: Sequence[Row]) -> Message:
        rows, log = [*gone, *kept], self.session.journal.log
        stored = await log.read(lambda snapshot: read_survivors(snapshot, self.session))
        history = self.session.history
        messages = await change_in_thread(history.encode_pieces) if history.is_long else history.encode_pieces()
        if not history.references <= self.head.followed:
            messages = await change_in_thread(replace_references, messages, self.head.followed)
        try:
            text = await self._writer(wish).write(messages, rows, wish.instructions, sum_tokens(gone))
        except NoSummary as failed:
            raise CompactionFailed(f"The conversation could not be summarised: {failed}.") from None
        last = find_last_request(rows)
        # Where it stays word for word, it need not be quoted.
        quoted = None if last is not None and last == find_last_request(kept) else last
        facts = self.load_facts(self.session)
        survivors = await render_survivors(self.session, stored, rows, quoted, facts, self.window)
        body = "\n\n".join([f"# Summary\n\n{text}", survivors, *wish.notes])
        return Message.model_validate(
            {
                "id": new_message_id(),
                "session_id": self.session.record.id,
                "turn_id": wish.turn_id,
                "role": "user",
                "content": [{"type": "text", "text": f"{_OPENING}\n{body}{_CLOSING}"}],
                "summary": True,
                "created_at": times.now(),
            }
        )

    def _writer(self, wish: CompactionWish) -> SummaryWriter:
        config = self.services.config()

        def tell_retry(retry: ModelRetry) -> None:
            if wish.turn_id is not None:
                self.session.journal.messages.record_retry(wish.turn_id, retry)
            else:
                words = f"The summary is asked for again: {retry.error.get('message')}"
                self.session.journal.add_notice(None, Notice(level="warning", text=words))

        return SummaryWriter(
            provider=self.services.provider(self.head.model),
            head=self.head,
            window=self.window,
            used=self.measure(),
            max_output=self._max_output,
            seconds=config.model.message_seconds,
            charge=self.session.usage_meter.charge,
            plan_retry=self.plan_retry,
            tell_retry=tell_retry,
        )

    # Both.

    async def _apply(self, store: Callable[[], Awaitable[Any]], build: Callable[[], History] | None) -> None:
        """Store it, and replace the history by what a restart would load: without a way to build it, it is loaded."""
        session, session_id = self.session, self.session.record.id
        # Shielded: what is stored must be what the next request sends.
        with anyio.CancelScope(shield=True):
            await store()
            if build is None:  # what is left is short
                stored = await session.journal.log.read(lambda snapshot: snapshot.messages.load_for_model(session_id))
                build = partial(History, stored)
            history = await read_in_thread(build)
            history.tool_use_ids |= session.history.tool_use_ids
            session.history = history
            session.context.forget()


def _clear_history(contents: Iterable[tuple[str, bytes]], cleared: Mapping[str, str]) -> History:
    """A history with texts in the place of results, as the storage replaces them."""
    history = History()
    for role, content in contents:
        history.add_encoded(role, replace_results(content, cleared.get))
    return history
