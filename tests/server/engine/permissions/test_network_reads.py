"""What needs the network only to look: asked about, unless the person's configuration lets it pass."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.support.driver import Harness
from tests.support.model_replies import bash
from tests.support.projects import explain_command, get_last_output, list_decisions, make_project, run_calls


def write_program(place: Path, words: str) -> str:
    """A program by the name of docker; returns a search path that finds it first."""
    place.mkdir(parents=True)
    (place / "docker").write_text(f"#!/bin/sh\n{words}\n")
    (place / "docker").chmod(0o755)
    return f"{place}:{os.environ['PATH']}"


def test_what_only_looks_is_asked_about_unless_the_setting_is_on(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session()
    assert explain_command(driver, "docker ps")["behavior"] == "ask"
    driver.daemon.call("config/set", key="permissions.network_reads", value=True)
    assert explain_command(driver, "docker ps | head -3")["behavior"] == "allow"
    for more in (
        "docker run x",
        "docker ps > f",
        "docker -H x ps",
        "docker ps; touch x",
        "docker ps && cat /etc/shadow",
    ):
        assert explain_command(driver, more)["behavior"] == "ask", more
    for mode in ("plan", "dontAsk"):
        assert explain_command(harness.open_session(mode=mode), "docker ps")["behavior"] == "allow"
    denying = harness.open_session(rules={"deny": ["Bash(docker:*)"]})
    assert explain_command(denying, "docker ps")["behavior"] == "deny"


def test_it_runs_outside_the_sandbox_but_with_no_program_of_the_workspace(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_PERMISSIONS__NETWORK_READS="true")
    folder = make_project(harness)
    right = write_program(harness.folder / "programs", f"touch {harness.folder}/ran; echo right $GIT_ALLOW_PROTOCOL")
    path = f"{write_program(folder / 'bin', 'echo planted').partition(':')[0]}:./bin:{right}"
    driver = run_calls(harness, bash("docker ps"), folder=folder, env={"PATH": path})
    assert list_decisions(driver) == [("allow", "tool")]
    assert driver.fetch_result_texts() == ["right https"]
    assert get_last_output(driver)["sandboxed"] is False
    assert (harness.folder / "ran").exists(), "in the sandbox it could not have"
