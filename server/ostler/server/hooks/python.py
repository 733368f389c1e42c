"""Hooks that are Python callables of plug-ins. They cannot be killed: one that hangs is left, told of, and kept out."""

import asyncio
import inspect
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import anyio
import orjson

from ostler.server.hooks.answers import Broke, Printed, Reply
from ostler.server.hooks.types import Hook

_TO_GIVE_UP: Final = 1.0
"""Seconds that an async one has after it was cancelled."""
_hanging: Final[dict[int, "Future[Reply] | asyncio.Task[Reply]"]] = {}
"""Runs that did not end in time. Every session has the same plug-ins, so it is for all of them."""


async def call(hook: Hook, payload: bytes) -> Reply:
    assert hook.call is not None
    hanging = _hanging.pop(id(hook.call), None)
    if hanging is not None and not hanging.done():
        _hanging[id(hook.call)] = hanging
        return Broke("an earlier run of it still hangs")
    # A copy for each: it may do with it what it likes.
    given = json.loads(payload)
    if _is_async(hook.call):
        return await _on_the_loop(hook, hook.call, given)
    return await _in_a_thread(hook, hook.call, given)


def _is_async(work: Callable[..., Any]) -> bool:
    # An object with an async __call__ is async too, and `iscoroutinefunction` does not say so.
    return inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(getattr(work, "__call__", None))  # noqa: B004


async def _on_the_loop(hook: Hook, work: Callable[..., Any], given: Any) -> Reply:
    # A task of its own: one that does not let itself be cancelled would hold the turn for ever.
    task = asyncio.create_task(_awaited(work, given))
    try:
        await asyncio.wait({task}, timeout=hook.timeout_seconds)
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=_TO_GIVE_UP)
    return _late(hook, task) if not task.done() or task.cancelled() else task.result()


async def _awaited(work: Callable[..., Any], given: Any) -> Reply:
    try:
        return _as_reply(await work(given))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - a plug-in's SystemExit must not end the daemon
        return _raised(error)


async def _in_a_thread(hook: Hook, work: Callable[..., Any], given: Any) -> Reply:
    result: Future[Reply] = Future()

    def run() -> None:
        try:
            reply = _as_reply(work(given))
        except BaseException as error:  # noqa: BLE001 - as above
            reply = _raised(error)
        result.set_result(reply)

    # A daemon's thread, and not one of a pool: a hanging one keeps neither the daemon alive nor others waiting.
    threading.Thread(target=run, name=f"ostler-hook-{hook.name}", daemon=True).start()
    waiting = asyncio.wrap_future(result)
    await asyncio.wait({waiting}, timeout=hook.timeout_seconds)
    return result.result() if result.done() else _late(hook, result)


def _late(hook: Hook, run: "Future[Reply] | asyncio.Task[Reply]") -> Reply:
    words = f"it took longer than {hook.timeout_seconds:g} s"
    if run.done():
        return Broke(words, timed_out=True)
    _hanging[id(hook.call)] = run
    return Broke(f"{words}, still hangs, and is not run again until it ends", timed_out=True)


def _raised(error: BaseException) -> Broke:
    return Broke(f"{type(error).__name__}: {error}")


def _as_reply(result: Any) -> Reply:
    match result:
        case None:
            return Printed("")
        case str():
            return Printed(result)
        case dict():
            try:
                return Printed(orjson.dumps(result).decode())
            except TypeError as error:
                return Broke(f"what it returned is no JSON: {error}")
        case _:
            if inspect.iscoroutine(result):
                result.close()
            return Broke(f"it returned {type(result).__name__}, where a dict, a text or None is expected")
