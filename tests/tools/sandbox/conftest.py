"""Sandbox harnesses: as the user that runs the tests, and, where that is root, as a plain user too."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache

import pytest

from tests.tools.sandbox.sandbox_harness import NOBODY, SandboxHarness, make_harness, require_sandbox


@pytest.fixture
def alone() -> None:
    """For tests that make sockets: one that goes away just then would keep another test's sandbox from starting."""


@pytest.fixture(autouse=True)
def process_lock(request: pytest.FixtureRequest) -> Iterator[None]:
    """A lock among all processes that run tests: exclusive for `alone`, shared for the others."""
    with open(f"{tempfile.gettempdir()}/ostler-sandbox-tests-{os.getuid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if "alone" in request.fixturenames else fcntl.LOCK_SH)
        yield


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """What root makes here is for a plain user too, whatever a test before has done to the process."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@cache
def find_reason_against_plain_users() -> str | None:
    sandbox = make_harness(NOBODY)
    try:
        done = sandbox.run("true")
    finally:
        shutil.rmtree(sandbox.place)
    return None if done.code == 0 else done.output


@pytest.fixture(params=["as_it_is", "as_a_plain_user"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[SandboxHarness]:
    require_sandbox()
    plain = request.param == "as_a_plain_user"
    if plain and os.getuid() != 0:
        pytest.skip("only root can become another user, and this user is a plain one already")
    if plain and (reason := find_reason_against_plain_users()) is not None:
        pytest.skip(f"a plain user cannot use the sandbox here: {reason}")
    sandbox = make_harness(NOBODY if plain else None)
    try:
        yield sandbox
    finally:
        shutil.rmtree(sandbox.place)
