"""Persisted results: compressed pieces, owners, and what a crash leaves."""

import pytest

from ostler.protocol.ids import ResultId, SessionId, first_result_id, new_result_id, new_session_id
from ostler.storage import Store, Tx
from ostler.storage.repositories import results
from ostler.storage.repositories.results import DROPPED_AT_ONCE, PIECE_CHARS, PLAIN, ResultRecord
from tests.storage.records import NOW, write
from tests.support.rows import select_value

pytestmark = pytest.mark.anyio
TEXT = "".join(f"{number} zeile ünd 🐎\n" for number in range(20_000))


async def put_result(store: Store, text: str, session_id: SessionId) -> ResultId:
    result_id = new_result_id()
    await write(store, lambda tx: tx.results.put(result_id, session_id, text, tool="Bash"))
    return result_id


async def count_pieces(store: Store) -> int:
    return await store.read(lambda snapshot: int(select_value(snapshot, "SELECT count(*) FROM result_pieces")))


async def test_any_range_comes_out_as_it_went_in(store: Store) -> None:
    result_id = await put_result(store, TEXT, new_session_id())
    edges = (0, 1, PIECE_CHARS - 1, PIECE_CHARS, PIECE_CHARS + 1, 3 * PIECE_CHARS, len(TEXT) - 1)
    for offset in edges:
        for limit in (1, 2, PIECE_CHARS, 2 * PIECE_CHARS + 1, 10**9):
            read = await store.read(lambda db: db.results.read(result_id, offset, limit))  # noqa: B023 - awaited at once
            assert read == TEXT[offset : offset + limit]
    for offset in (len(TEXT), len(TEXT) + 1, 2**53):
        assert await store.read(lambda db: db.results.read(result_id, offset, 10)) == ""  # noqa: B023 - as above


async def test_a_part_is_packed_like_the_whole() -> None:
    whole = list(results.pack_pieces(TEXT))
    parts = [*results.pack_pieces(TEXT, 0, 2 * PIECE_CHARS), *results.pack_pieces(TEXT, 2 * PIECE_CHARS)]
    assert parts == whole
    assert sum(piece.chars for piece in whole) == len(TEXT)
    assert sum(piece.size for piece in whole) == len(TEXT.encode())


async def test_pieces_that_were_stored_ahead_become_a_result(store: Store) -> None:
    result_id, session_id = new_result_id(), new_session_id()
    sizes = [await write(store, lambda tx: tx.results.put_pieces(result_id, results.pack_pieces(TEXT)))]
    assert await store.read(lambda db: db.results.find(result_id)) is None
    record = ResultRecord(result_id, "Bash", PLAIN, len(TEXT), sum(sizes), NOW)
    await write(store, lambda tx: tx.results.add(session_id, record))
    assert await store.read(lambda db: db.results.find(result_id)) == record
    assert await store.read(lambda db: db.results.read(result_id, 0, 10**9)) == TEXT
    assert record.total_bytes == len(TEXT.encode())


async def test_only_owners_own(store: Store) -> None:
    owner, fork, other = new_session_id(), new_session_id(), new_session_id()
    result_id = await put_result(store, "x", owner)
    await write(store, lambda tx: tx.results.share(owner, fork))
    owned = [await store.read(lambda db: db.results.owns(one, result_id)) for one in (owner, fork, other)]  # noqa: B023
    assert owned == [True, True, False]


async def test_a_result_goes_with_its_last_owner_and_takes_its_pieces_along(store: Store) -> None:
    owner, fork = new_session_id(), new_session_id()
    result_id = await put_result(store, TEXT, owner)
    await write(store, lambda tx: tx.results.share(owner, fork))
    await write(store, lambda tx: tx.results.disown(owner))
    assert await store.read(lambda db: db.results.read(result_id, 0, 10)) == TEXT[:10]
    await write(store, lambda tx: tx.results.disown(fork))
    assert await store.read(lambda db: db.results.find(result_id)) is None
    assert await count_pieces(store) == 0


async def test_a_large_result_goes_at_once_and_its_pieces_step_by_step(store: Store) -> None:
    owner = new_session_id()
    result_id = await put_result(store, "x" * (PIECE_CHARS * (2 * DROPPED_AT_ONCE + 1)), owner)
    assert await write(store, lambda tx: tx.results.disown(owner)) == [result_id]
    assert await store.read(lambda db: db.results.find(result_id)) is None
    left = [await count_pieces(store)]
    while await write(store, lambda tx: tx.results.drop_pieces(result_id)):
        left.append(await count_pieces(store))
    assert left == [DROPPED_AT_ONCE + 1, 1]
    assert await count_pieces(store) == 0


async def test_what_was_never_made_known_is_found_when_it_is_old_enough(store: Store) -> None:
    known, left = await put_result(store, "x", new_session_id()), new_result_id()

    def leave(tx: Tx) -> None:
        tx.results.put_pieces(left, results.pack_pieces("y"))

    await write(store, leave)
    later = first_result_id(2**45)
    assert await store.read(lambda db: db.results.list_unfinished(later)) == [left]
    assert await store.read(lambda db: db.results.list_unfinished(left)) == []
    await write(store, lambda tx: tx.results.drop_pieces(left))
    assert await store.read(lambda db: db.results.list_unfinished(later)) == []
    assert await store.read(lambda db: db.results.read(known, 0, 1)) == "x"
