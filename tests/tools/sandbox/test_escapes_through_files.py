"""Attempts to get out through files and mounts. Each must fail inside, and succeed outside where that can be shown."""

import pytest

from tests.tools.sandbox.box import GOT_IT, Box, python, refused


def test_writing_outside_the_roots(box: Box) -> None:
    target = box.outside_folder / "planted"
    refused(box, f"echo x > {target} && echo {GOT_IT}")


def test_writing_outside_through_a_link(box: Box) -> None:
    (box.project / "link").symlink_to(box.outside_folder / "planted")
    (box.project / "folder").symlink_to(box.outside_folder)
    inside = refused(box, f"(echo x > link || echo x > folder/other) && echo {GOT_IT}")
    assert "Read-only file system" in inside.output


def test_writing_outside_through_a_hard_link(box: Box) -> None:
    kept = box.put("outside/kept")
    refused(box, f"ln {kept} mine && echo x > mine && echo {GOT_IT}")


def test_writing_outside_through_the_folder_of_a_process(box: Box) -> None:
    target = f"/proc/self/root{box.outside_folder}/planted"
    refused(box, f"(echo x > {target} || echo x > /proc/1/root{box.outside_folder}/p) && echo {GOT_IT}")


def test_changing_the_mode_of_a_file_outside(box: Box) -> None:
    kept = box.put("outside/kept")
    refused(box, f"chmod 777 {kept} && echo {GOT_IT}")


def test_moving_the_root_itself_away(box: Box) -> None:
    refused(box, f"cd / && mv {box.project} {box.project}2 && mv {box.project}2 {box.project} && echo {GOT_IT}")


def test_reading_the_daemons_token(box: Box) -> None:
    token = box.put("daemon/token", "secret-token\n")
    refused(box, f"grep secret {token} && echo {GOT_IT}")


def test_reading_the_token_through_the_root_of_another_process(box: Box) -> None:
    token = box.put("daemon/token", "secret-token\n")
    refused(box, f"cat /proc/1/root{token} /proc/*/root{token} | grep secret && echo {GOT_IT}")


@pytest.mark.parametrize("name", [".ssh/id_ed25519", ".aws/credentials", ".config/gcloud/key", ".netrc", ".npmrc"])
def test_reading_credentials(box: Box, name: str) -> None:
    file = box.put(f"home/{name}", "secret\n", 0o600)
    refused(box, f"grep secret {file} && echo {GOT_IT}")
    refused(box, f"grep secret {file} && echo {GOT_IT}", box.profile("read_only"))


def test_reading_credentials_that_are_a_link_to_elsewhere(box: Box) -> None:
    box.put("outside/keys/id", "secret\n")
    (box.home / ".ssh").symlink_to(box.outside_folder / "keys")
    refused(box, f"grep -r secret {box.home}/.ssh/ {box.outside_folder} && echo {GOT_IT}")


def test_reading_credentials_after_taking_the_cover_off(box: Box) -> None:
    file = box.put("home/.ssh/id", "secret\n")
    script = f"(umount {box.home}/.ssh || umount -l {box.home}/.ssh); grep secret {file} && echo {GOT_IT}"
    refused(box, script)


# Mounts and namespaces


def test_remounting_the_root_writable(box: Box) -> None:
    target = box.outside_folder / "planted"
    for options in ("remount,rw", "remount,bind,rw"):
        refused(box, f"mount -o {options} /; echo x > {target} && echo {GOT_IT}", works_outside=False)
    assert not target.exists()


def test_without_cap_drop_a_root_sandbox_can_remount_itself_writable(box: Box) -> None:
    if not box.is_root:
        pytest.skip("bwrap takes a plain user's powers away by itself")
    target = box.outside_folder / "planted"
    attempt = ["/bin/bash", "-c", f"mount -o remount,bind,rw / && echo x > {target} && echo {GOT_IT}"]
    # Each of the two would be enough.
    assert GOT_IT in box.run_arguments(attempt, without=("--disable-userns", "--cap-drop", "ALL")).output
    assert GOT_IT not in box.run_arguments(attempt, without=("--disable-userns",)).output
    assert GOT_IT not in box.run_arguments(attempt).output


def test_mounting_anything(box: Box) -> None:
    with_own_namespace = "unshare -m" if box.is_root else "unshare -Urm"
    mount = f"mount -t tmpfs none {box.project}"
    refused(box, f"({mount} || {with_own_namespace} {mount}) && echo {GOT_IT}", works_outside=False)
    refused(box, f"{with_own_namespace} {mount} && echo {GOT_IT}")


def test_making_a_user_namespace(box: Box) -> None:
    refused(box, f"unshare -Ur true && echo {GOT_IT}")


def test_making_a_user_namespace_is_stopped_by_its_own_flag(box: Box) -> None:
    attempt = ["unshare", "-U", "echo", GOT_IT]
    assert GOT_IT not in box.run_arguments(attempt).output
    assert GOT_IT in box.run_arguments(attempt, without=("--disable-userns",)).output


def test_changing_the_root_folder(box: Box) -> None:
    refused(box, f"chroot / true && echo {GOT_IT}", works_outside=box.is_root)


def test_opening_a_file_by_its_handle(box: Box) -> None:
    token = box.put("daemon/token", "secret-token\n")
    script = f"""{python()} - <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
handle, mount = Handle(size=128), ctypes.c_int()
def check(result):
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
# Of a file that can be seen: its number is then changed to the one of the token.
known = {str(token)!r} if os.path.exists({str(token)!r}) else {str(box.project)!r}
check(libc.name_to_handle_at(-100, known.encode(), ctypes.byref(handle), ctypes.byref(mount), 0))
if known != {str(token)!r}:
    handle.data[0:4] = list(({token.stat().st_ino}).to_bytes(4, "little"))
place = os.open({str(box.project)!r}, os.O_RDONLY)
os.read(check(libc.open_by_handle_at(place, ctypes.byref(handle), os.O_RDONLY)), 100)
print({GOT_IT!r})
END"""
    inside = refused(box, script, works_outside=box.is_root)
    assert "Operation not permitted" in inside.output
