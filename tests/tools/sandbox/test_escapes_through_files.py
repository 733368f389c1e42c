"""Attempts to get out through files and mounts. Each must fail inside, and succeed outside where that can be shown."""

import pytest

from tests.tools.sandbox.sandbox_harness import GOT_IT, SandboxHarness, assert_refused, find_python


def test_writing_outside_the_roots(sandbox: SandboxHarness) -> None:
    target = sandbox.outside_folder / "planted"
    assert_refused(sandbox, f"echo x > {target} && echo {GOT_IT}")


def test_writing_outside_through_a_link(sandbox: SandboxHarness) -> None:
    (sandbox.project / "link").symlink_to(sandbox.outside_folder / "planted")
    (sandbox.project / "folder").symlink_to(sandbox.outside_folder)
    inside = assert_refused(sandbox, f"(echo x > link || echo x > folder/other) && echo {GOT_IT}")
    assert "Read-only file system" in inside.output


def test_writing_outside_through_a_hard_link(sandbox: SandboxHarness) -> None:
    kept = sandbox.put_file("outside/kept")
    assert_refused(sandbox, f"ln {kept} mine && echo x > mine && echo {GOT_IT}")


def test_writing_outside_through_the_folder_of_a_process(sandbox: SandboxHarness) -> None:
    target = f"/proc/self/root{sandbox.outside_folder}/planted"
    assert_refused(
        sandbox,
        f"(echo x > {target} || echo x > /proc/1/root{sandbox.outside_folder}/p) && echo {GOT_IT}",
    )


def test_changing_the_mode_of_a_file_outside(sandbox: SandboxHarness) -> None:
    kept = sandbox.put_file("outside/kept")
    assert_refused(sandbox, f"chmod 777 {kept} && echo {GOT_IT}")


def test_moving_the_root_itself_away(sandbox: SandboxHarness) -> None:
    assert_refused(
        sandbox,
        f"cd / && mv {sandbox.project} {sandbox.project}2 && mv {sandbox.project}2 {sandbox.project} && echo {GOT_IT}",
    )


def test_reading_the_daemons_token(sandbox: SandboxHarness) -> None:
    token = sandbox.put_file("daemon/token", "secret-token\n")
    assert_refused(sandbox, f"grep secret {token} && echo {GOT_IT}")


def test_reading_the_token_through_the_root_of_another_process(sandbox: SandboxHarness) -> None:
    token = sandbox.put_file("daemon/token", "secret-token\n")
    assert_refused(sandbox, f"cat /proc/1/root{token} /proc/*/root{token} | grep secret && echo {GOT_IT}")


@pytest.mark.parametrize("name", [".ssh/id_ed25519", ".aws/credentials", ".config/gcloud/key", ".netrc", ".npmrc"])
def test_reading_credentials(sandbox: SandboxHarness, name: str) -> None:
    file = sandbox.put_file(f"home/{name}", "secret\n", 0o600)
    assert_refused(sandbox, f"grep secret {file} && echo {GOT_IT}")
    assert_refused(sandbox, f"grep secret {file} && echo {GOT_IT}", sandbox.build_profile("read_only"))


def test_reading_credentials_that_are_a_link_to_elsewhere(sandbox: SandboxHarness) -> None:
    sandbox.put_file("outside/keys/id", "secret\n")
    (sandbox.home / ".ssh").symlink_to(sandbox.outside_folder / "keys")
    assert_refused(
        sandbox,
        f"grep -r secret {sandbox.home}/.ssh/ {sandbox.outside_folder} && echo {GOT_IT}",
    )


def test_reading_credentials_after_taking_the_cover_off(sandbox: SandboxHarness) -> None:
    file = sandbox.put_file("home/.ssh/id", "secret\n")
    script = f"(umount {sandbox.home}/.ssh || umount -l {sandbox.home}/.ssh); grep secret {file} && echo {GOT_IT}"
    assert_refused(sandbox, script)


# Mounts and namespaces


def test_remounting_the_root_writable(sandbox: SandboxHarness) -> None:
    target = sandbox.outside_folder / "planted"
    for options in ("remount,rw", "remount,bind,rw"):
        assert_refused(sandbox, f"mount -o {options} /; echo x > {target} && echo {GOT_IT}", works_outside=False)
    assert not target.exists()


def test_without_cap_drop_a_root_sandbox_can_remount_itself_writable(sandbox: SandboxHarness) -> None:
    if not sandbox.is_root:
        pytest.skip("bwrap takes a plain user's powers away by itself")
    target = sandbox.outside_folder / "planted"
    attempt = ["/bin/bash", "-c", f"mount -o remount,bind,rw / && echo x > {target} && echo {GOT_IT}"]
    # Each of the two would be enough.
    both = ("--disable-userns", "--cap-drop", "ALL")
    assert GOT_IT in sandbox.run_arguments(attempt, without=both, filtered=False).output
    assert GOT_IT not in sandbox.run_arguments(attempt, without=("--disable-userns",), filtered=False).output
    assert GOT_IT not in sandbox.run_arguments(attempt, without=both).output
    assert GOT_IT not in sandbox.run_arguments(attempt).output


def test_mounting_anything(sandbox: SandboxHarness) -> None:
    with_own_namespace = "unshare -m" if sandbox.is_root else "unshare -Urm"
    mount = f"mount -t tmpfs none {sandbox.project}"
    assert_refused(sandbox, f"({mount} || {with_own_namespace} {mount}) && echo {GOT_IT}", works_outside=False)
    assert_refused(sandbox, f"{with_own_namespace} {mount} && echo {GOT_IT}")


def test_making_a_user_namespace(sandbox: SandboxHarness) -> None:
    assert_refused(sandbox, f"unshare -Ur true && echo {GOT_IT}")


def test_making_a_user_namespace_is_stopped_by_its_own_flag(sandbox: SandboxHarness) -> None:
    attempt = ["unshare", "-U", "echo", GOT_IT]
    assert GOT_IT not in sandbox.run_arguments(attempt).output
    assert GOT_IT in sandbox.run_arguments(attempt, without=("--disable-userns",), filtered=False).output


def test_changing_the_root_folder(sandbox: SandboxHarness) -> None:
    assert_refused(sandbox, f"chroot / true && echo {GOT_IT}", works_outside=sandbox.is_root)


def test_opening_a_file_by_its_handle(sandbox: SandboxHarness) -> None:
    token = sandbox.put_file("daemon/token", "secret-token\n")
    script = f"""{find_python()} - <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
handle, mount = Handle(size=128), ctypes.c_int()
def check(result):
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
# Of a file that can be seen: its number is then changed to the one of the token.
known = {str(token)!r} if os.path.exists({str(token)!r}) else {str(sandbox.project)!r}
check(libc.name_to_handle_at(-100, known.encode(), ctypes.byref(handle), ctypes.byref(mount), 0))
if known != {str(token)!r}:
    handle.data[0:4] = list(({token.stat().st_ino}).to_bytes(4, "little"))
place = os.open({str(sandbox.project)!r}, os.O_RDONLY)
os.read(check(libc.open_by_handle_at(place, ctypes.byref(handle), os.O_RDONLY)), 100)
print({GOT_IT!r})
END"""
    inside = assert_refused(sandbox, script, works_outside=sandbox.is_root)
    assert "Operation not permitted" in inside.output
