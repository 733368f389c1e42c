"""Files for mentions: found by letters of their paths, and read, as far as the session may."""

from pathlib import Path

import pytest

from ostler.server.api.files.file_index import FileIndex
from tests.support.inprocess import InProcessDaemon


def find(daemon: InProcessDaemon, session_id: str, query: str) -> list[str]:
    found = daemon.call("file/search", session_id=session_id, query=query)["files"]
    return [file["path"] for file in found]


def test_files_are_found_by_a_few_letters_as_far_as_they_may_be_read(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "proj"
    for name in ("src/horse.py", "src/mule.py", "docs/horse.md", "secret/horse.key", "build/horse.o", ".hidden/horse"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("neigh\n")
    (folder / ".gitignore").write_text("build/\n")
    with InProcessDaemon(home) as daemon:
        rules = {"deny": ["Read(secret/**)"]}
        session_id = daemon.call("session/create", cwd=str(folder), rules=rules)["id"]
        assert set(find(daemon, session_id, "horse")) == {"src/horse.py", "docs/horse.md", ".hidden/horse"}
        assert find(daemon, session_id, "HORSE.m") == ["docs/horse.md"]
        assert find(daemon, session_id, "smul") == ["src/mule.py"]
        assert find(daemon, session_id, "zebra") == []
        assert find(daemon, session_id, "doc")[0] == "docs/"
        assert {"src/", "docs/", ".gitignore"} <= set(find(daemon, session_id, ""))
        read = daemon.call("file/read", session_id=session_id, path="src/horse.py")
        assert (read["content"], read["total_lines"], read["next_offset"]) == ("neigh\n", 1, None)
        for path in ("secret/horse.key", "../outside", "/etc/passwd", "src", "nothing"):
            refused = daemon.expect_error("file/read", session_id=session_id, path=path)
            assert (refused["code"], refused["data"]["errors"][0]["path"]) == (-32602, "path"), path


def test_a_mention_shows_nothing_that_a_rule_keeps_from_being_read(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "proj"
    (folder / "secret").mkdir(parents=True)
    (folder / "secret" / "key").write_text("0p3n-s3s4me\n")
    (folder / "link").symlink_to("secret/key")
    (folder / "plain").write_text("neigh\n")
    (folder / ".ostler").mkdir()
    (folder / ".ostler" / "settings.json").write_text('{"permissions": {"deny": ["Read(secret/**)"]}}')
    with InProcessDaemon(home) as daemon:
        session_id = daemon.call("session/create", cwd=str(folder), trust=False)["id"]
        mentions = [{"type": "file", "path": path} for path in ("secret/key", "link", "secret", "plain")]
        daemon.call("run", session_id=session_id, input=[{"type": "text", "text": "say hello"}, *mentions])
        sent = daemon.call("session/messages", session_id=session_id)["messages"][0]["content"]
    texts = [block["text"] for block in sent if block["type"] == "text"]
    assert not any("0p3n-s3s4me" in text for text in texts)
    assert sum("may not be read in this session" in text for text in texts) >= 2
    assert any("neigh" in text for text in texts)


def test_lines_of_a_file_are_read_in_parts(home: Path, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"{number}\n" for number in range(10)))
    with InProcessDaemon(home) as daemon:
        session_id = daemon.call("session/create", cwd=str(tmp_path))["id"]
        first = daemon.call("file/read", session_id=session_id, path="long.txt", limit=4)
        rest = daemon.call("file/read", session_id=session_id, path="long.txt", offset=first["next_offset"])
    assert (first["content"], first["next_offset"]) == ("0\n1\n2\n3\n", 4)
    assert (rest["content"], rest["next_offset"]) == ("4\n5\n6\n7\n8\n9\n", None)


@pytest.mark.without_daemon
def test_names_come_before_folders_and_whole_words_before_scattered_letters() -> None:
    index = FileIndex(["test/", "src/test.py", "test/main.py", "attest.md", "t/e/s/t.c"])
    found = [one.path for one in index.find("test", lambda path: True, 10)]
    assert found == ["test/", "src/test.py", "attest.md", "test/main.py", "t/e/s/t.c"]
    assert [one.path for one in index.find("test", lambda path: path != "test/", 1)] == ["src/test.py"]
