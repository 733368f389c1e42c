"""`sessions`, `show`, `export`, `archive`, `delete` on a real daemon."""

import json
from pathlib import Path

import pytest

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon


@pytest.fixture
def session_id(daemon: Daemon) -> str:
    return str(daemon.call("session/create", cwd=str(daemon.home.parent), title="fix login")["id"])


def test_sessions_in_a_pipe_are_lines_with_tabs(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    listed = daemon_cli.run("sessions")
    assert (listed.code, listed.err) == (0, "")
    cells = listed.out.rstrip("\n").split("\t")
    assert (cells[0], cells[1], cells[3], cells[4]) == (session_id, "idle", "fix login", str(daemon.home.parent))


def test_sessions_as_json_are_what_the_wire_says(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    listed = daemon_cli.run("sessions", "--format", "json")
    assert listed.json == daemon.call("session/list")


def test_no_sessions_is_no_failure(daemon_cli: Cli) -> None:
    listed = daemon_cli.run("sessions")
    assert (listed.code, listed.out, listed.err) == (0, "", "No sessions.\n")


def test_sessions_on_a_terminal_are_columns_in_colour(daemon_cli: Cli, session_id: str) -> None:
    plain = daemon_cli.run_in_terminal("sessions")
    assert "\x1b" not in plain.out
    assert plain.out.startswith(f"{session_id}  idle ")
    coloured = daemon_cli.run_in_terminal("sessions", NO_COLOR="")
    assert "\x1b[36midle" in coloured.out


def test_a_title_cannot_steer_the_terminal(daemon_cli: Cli, daemon: Daemon) -> None:
    daemon.call("session/create", cwd=str(daemon.home.parent), title="a\u009b31mb\u202ec")
    for shown in (daemon_cli.run_in_terminal("sessions").out, daemon_cli.run("sessions").out):
        assert "a\\x9b31mb\\u202ec" in shown


def create_untitled_session(daemon: Daemon, words: str) -> str:
    """A session without a title, in which this was said."""
    folder = str(daemon.home.parent)
    return str(daemon.call("run", cwd=folder, input=words)["session_id"])


def test_a_session_without_a_title_is_known_by_its_first_words(daemon_cli: Cli, daemon: Daemon) -> None:
    untitled = create_untitled_session(daemon, "read\n  README.md")
    daemon.call("run", session_id=untitled, input="read something else")
    empty = str(daemon.call("session/create", cwd=str(daemon.home.parent))["id"])
    lines = [line.split("\t") for line in daemon_cli.run("sessions").out.splitlines()]
    titles = {cells[0]: cells[3] for cells in lines}
    assert titles == {untitled: "read README.md", empty: ""}
    assert "  read README.md  " in daemon_cli.run_in_terminal("sessions").out


def test_long_first_words_are_cut_and_cannot_steer_the_terminal(daemon_cli: Cli, daemon: Daemon) -> None:
    create_untitled_session(daemon, "a\u009b31mb " + "word " * 1000)
    for shown in (daemon_cli.run_in_terminal("sessions").out, daemon_cli.run("sessions").out):
        assert "a\\x9b31mb word word" in shown
        assert len(shown) < 300


def test_first_words_are_what_somebody_sees_who_is_asked_to_delete(daemon_cli: Cli, daemon: Daemon) -> None:
    assert (
        "read README.md"
        in daemon_cli.run_in_terminal("delete", create_untitled_session(daemon, "read README.md"), typed="n\n").out
    )


def test_sessions_are_chosen_by_folder_text_and_archive(daemon_cli: Cli, daemon: Daemon, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    ids = {
        name: str(daemon.call("session/create", cwd=str(folder), title=name)["id"])
        for name, folder in {"alpha": tmp_path, "beta": inner, "gamma": tmp_path}.items()
    }
    daemon.call("session/archive", session_id=ids["gamma"])

    def list_titles(*arguments: str) -> set[str]:
        return {line.split("\t")[3] for line in daemon_cli.run("sessions", *arguments).out.splitlines()}

    assert list_titles() == {"alpha", "beta"}
    assert list_titles("--all") == {"alpha", "beta", "gamma"}
    assert list_titles("--archived") == {"gamma"}
    assert list_titles("--cwd", str(inner)) == {"beta"}
    assert list_titles("--text", "ALPH") == {"alpha"}


def test_more_sessions_than_a_page_are_paged_through(daemon_cli: Cli, daemon: Daemon) -> None:
    calls = [
        {"jsonrpc": "2.0", "id": number, "method": "session/create", "params": {"cwd": str(daemon.home.parent)}}
        for number in range(50)
    ]
    for _ in range(11):
        daemon.post(json.dumps(calls).encode())
    everything = daemon_cli.run("sessions", "--limit", "1000", "--format", "json").json
    assert len({session["id"] for session in everything["sessions"]}) == 550
    assert everything["next"] is None
    some = daemon_cli.run("sessions", "--limit", "520")
    assert len(some.out.splitlines()) == 520
    assert some.err == "There are more: --limit 1040.\n"


def test_both_kinds_of_archive_at_once_are_wrong_usage(daemon_cli: Cli) -> None:
    assert daemon_cli.run("sessions", "--all", "--archived").code == 2


def test_show_has_the_session_and_its_messages(daemon_cli: Cli, session_id: str) -> None:
    shown = daemon_cli.run("show", session_id)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == "fix login"
    assert any(line.split() == ["id", session_id] for line in lines)


def test_show_as_json(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    shown = daemon_cli.run("show", session_id, "--format", "json").json
    session = daemon.call("session/get", session_id=session_id)
    assert shown == {"session": session, "messages": [], "decisions": {}, "agents": []}


@pytest.mark.parametrize("command", [["show"], ["export"], ["archive"], ["delete", "--yes"]])
def test_an_unknown_id_says_where_to_look(daemon_cli: Cli, command: list[str]) -> None:
    failed = daemon_cli.run(*command, "s_none")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err == "ostler: There is no session 's_none'. `ostler sessions --all` lists what there is.\n"


@pytest.mark.parametrize("kind", ["jsonl", "markdown", "json"])
def test_export_is_what_the_daemon_offers_for_download(
    daemon_cli: Cli, daemon: Daemon, session_id: str, kind: str, tmp_path: Path
) -> None:
    wanted = daemon.send_http("GET", f"/sessions/{session_id}/export?format={kind}").body.decode()
    assert daemon_cli.run("export", session_id, "--as", kind).out == wanted
    file = tmp_path / "export"
    done = daemon_cli.run("export", session_id, "--as", kind, "-o", str(file))
    assert (done.out, done.err) == ("", f"Wrote {file}.\n")
    assert file.read_text() == wanted


def test_an_export_that_fails_leaves_the_file_as_it_was(daemon_cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "export"
    file.write_text("before")
    assert daemon_cli.run("export", "s_none", "-o", str(file)).code == 1
    assert daemon_cli.run("export", "s_none", "-o", str(tmp_path / "no" / "folder")).code == 1
    assert file.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("export")] == ["export"]


def test_export_to_a_folder_that_is_not_there_is_one_line(daemon_cli: Cli, session_id: str, tmp_path: Path) -> None:
    failed = daemon_cli.run("export", session_id, "-o", str(tmp_path / "no" / "folder"))
    assert failed.code == 1
    assert failed.err == f"ostler: '{tmp_path}/no/folder' cannot be used: No such file or directory.\n"


def test_export_to_a_device_writes_to_it(daemon_cli: Cli, session_id: str) -> None:
    assert daemon_cli.run("export", session_id, "-o", "/dev/null").code == 0


def test_a_session_goes_into_the_archive_and_comes_out_again(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    away = daemon_cli.run("archive", session_id, session_id)
    assert (away.code, away.out, away.err) == (0, f"Archived {session_id}\n", "")
    assert daemon.call("session/get", session_id=session_id)["status"] == "archived"
    back = daemon_cli.run("archive", "--undo", session_id)
    assert (back.code, back.out) == (0, f"Taken out of the archive: {session_id}\n")
    assert daemon.call("session/get", session_id=session_id)["status"] == "idle"


def test_archive_with_one_wrong_id_moves_nothing(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    failed = daemon_cli.run("archive", session_id, "s_none")
    assert (failed.code, failed.out) == (1, "")
    assert daemon.call("session/get", session_id=session_id)["status"] == "idle"


def test_delete_without_anybody_to_ask_is_refused(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    refused = daemon_cli.run("delete", session_id)
    assert refused.code == 1
    assert "--yes" in refused.err
    assert daemon.call("session/get", session_id=session_id)["id"] == session_id


def test_delete_with_yes_deletes(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    other = str(daemon.call("session/create", cwd=str(daemon.home.parent))["id"])
    done = daemon_cli.run("delete", session_id, other, session_id, "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"Deleted {session_id}\nDeleted {other}\n"
    assert daemon.expect_error("session/get", session_id=session_id)["data"]["code"] == "session_not_found"


def test_delete_with_one_wrong_id_deletes_nothing(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    assert daemon_cli.run("delete", session_id, "s_none", "--yes").code == 1
    assert daemon.call("session/get", session_id=session_id)["id"] == session_id


def test_delete_on_a_terminal_asks_first(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    no = daemon_cli.run_in_terminal("delete", session_id, typed="n\n")
    assert no.code == 1
    assert "fix login" in no.out
    assert "Delete this session" in no.out
    assert daemon.call("session/get", session_id=session_id)["id"] == session_id
    assert daemon_cli.run_in_terminal("delete", session_id, typed="y\n").code == 0
    assert daemon.expect_error("session/get", session_id=session_id)["data"]["code"] == "session_not_found"


def test_a_command_starts_the_daemon_and_says_so(cli: Cli) -> None:
    listed = cli.run("sessions", "--format", "json")
    assert listed.code == 0
    assert listed.json == {"sessions": [], "next": None}
    assert listed.err.startswith("Started the daemon (pid ")
    assert cli.run("sessions").err == "No sessions.\n"


def test_a_command_starts_a_daemon_again_after_a_crash(daemon_cli: Cli, daemon: Daemon, session_id: str) -> None:
    daemon.kill()
    listed = daemon_cli.run("sessions")
    assert listed.out.startswith(session_id)
    daemon_cli.run("stop")


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_command_that_may_not_start_a_daemon_fails(cli: Cli, how: str) -> None:
    failed = cli.run("--no-start", "sessions") if how == "option" else cli.run("sessions", OSTLER_NO_START="1")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err == f"ostler: No daemon runs for {cli.home}. Start one with `ostler start`.\n"
    assert not cli.home.exists()


def test_the_home_of_the_command_line_wins(daemon_cli: Cli, daemon: Daemon, session_id: str, tmp_path: Path) -> None:
    elsewhere = Cli(tmp_path / "elsewhere")
    assert elsewhere.run("--home", str(daemon.home), "sessions").out.startswith(session_id)
    assert not elsewhere.home.exists()


def test_what_the_daemon_finds_wrong_is_one_line(daemon_cli: Cli) -> None:
    failed = daemon_cli.run("sessions", "--text", "a\nb")
    assert failed.code == 2
    assert failed.err.startswith("ostler: text: ")
    assert len(failed.err.splitlines()) == 1
