"""Hooks that are Python callables of plug-ins. They cannot be killed: one that hangs is left, and not called again."""

import asyncio
import inspect
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import anyio
import orjson

from ostler.server.hooks.answers import HookFailure, HookOutput, Reply
from ostler.server.hooks.types import Hook

_CANCEL_SECONDS: Final = 1.0
"""Seconds that an async one has after it was cancelled."""
_hanging_runs: Final[dict[int, "Future[Reply] | asyncio.Task[Reply]"]] = {}
"""Runs that did not end in time. Shared by all sessions, since they have the same plug-ins."""


async def run_callable(hook: Hook, payload: bytes) -> Reply:
    assert hook.call is not None
    hanging = _hanging_runs.pop(id(hook.call), None)
    if hanging is not None and not hanging.done():
        _hanging_runs[id(hook.call)] = hanging
        return HookFailure("an earlier run of it still hangs")
    # A copy for each hook, which may change it.
    event = json.loads(payload)
    if _is_async(hook.call):
        return await _run_async(hook, hook.call, event)
    return await _run_in_thread(hook, hook.call, event)


def _is_async(function: Callable[..., Any]) -> bool:
    # An object with an async __call__ is async too, and `iscoroutinefunction` does not say so.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def _run_async(hook: Hook, function: Callable[..., Any], event: Any) -> Reply:
    # A task of its own: one that does not let itself be cancelled would hold the turn for ever.
    task = asyncio.create_task(_await_hook(function, event))
    try:
        await asyncio.wait({task}, timeout=hook.timeout_seconds)
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
    return _report_timeout(hook, task) if not task.done() or task.cancelled() else task.result()


async def _await_hook(function: Callable[..., Any], event: Any) -> Reply:
    try:
        return _as_reply(await function(event))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - a plug-in's SystemExit must not end the daemon
        return _report_error(error)


async def _run_in_thread(hook: Hook, function: Callable[..., Any], event: Any) -> Reply:
    result: Future[Reply] = Future()

    def run() -> None:
        try:
            reply = _as_reply(function(event))
        except BaseException as error:  # noqa: BLE001 - as above
            reply = _report_error(error)
        result.set_result(reply)

    # A daemon thread, and not one of a pool: a hanging one keeps neither the daemon alive nor others waiting.
    threading.Thread(target=run, name=f"ostler-hook-{hook.name}", daemon=True).start()
    waiting = asyncio.wrap_future(result)
    await asyncio.wait({waiting}, timeout=hook.timeout_seconds)
    return result.result() if result.done() else _report_timeout(hook, result)


def _report_timeout(hook: Hook, run: "Future[Reply] | asyncio.Task[Reply]") -> Reply:
    words = f"it took longer than {hook.timeout_seconds:g} s"
    if run.done():
        return HookFailure(words, timed_out=True)
    _hanging_runs[id(hook.call)] = run
    return HookFailure(f"{words}, still hangs, and is not run again until it ends", timed_out=True)


def _report_error(error: BaseException) -> HookFailure:
    return HookFailure(f"{type(error).__name__}: {error}")


def _as_reply(result: Any) -> Reply:
    match result:
        case None:
            return HookOutput("")
        case str():
            return HookOutput(result)
        case dict():
            try:
                return HookOutput(orjson.dumps(result).decode())
            except TypeError as error:
                return HookFailure(f"what it returned is no JSON: {error}")
        case _:
            if inspect.iscoroutine(result):
                result.close()
            return HookFailure(f"it returned {type(result).__name__}, where a dict, a text or None is expected")
