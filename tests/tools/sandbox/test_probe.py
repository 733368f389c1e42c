"""Whether the sandbox works here, and why not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ostler.tools.sandbox import describe_support, probe_sandbox
from ostler.tools.tool_config import Support
from tests.tools.sandbox.sandbox_harness import NOBODY, find_python, make_harness, require_sandbox


def test_where_it_works_it_says_with_what() -> None:
    found = require_sandbox()
    assert found.bwrap is not None
    assert os.path.isabs(found.bwrap)
    assert found.version[0].isdigit()
    assert found.user_namespaces
    assert found.as_root == (os.getuid() == 0)
    assert found.reason == ""
    assert [well for _, well, _ in describe_support(found)] == [True, True, found.filters, True]


def test_where_bwrap_is_missing_it_says_what_to_install(tmp_path: Path) -> None:
    found = probe_sandbox(str(tmp_path))
    assert not found.works
    assert found.bwrap is None
    assert "install the package bubblewrap" in found.reason
    (bubblewrap, *_, sandbox) = describe_support(found)
    assert bubblewrap == ("bubblewrap", False, "not found: install the package bubblewrap")
    assert not sandbox[1]
    assert "the table alone decides" in sandbox[2]


def test_where_the_kernel_forbids_user_namespaces_it_says_which_setting() -> None:
    """In a user namespace of the test's own, which has that setting for itself."""
    require_sandbox()
    look = (
        "from ostler.tools.sandbox import describe_support, probe_sandbox; found = probe_sandbox(); "
        "print(found.works, found.user_namespaces, found.reason); print(describe_support(found)[1])"
    )
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    done = subprocess.run(
        ["unshare", "-Ur", "/bin/sh", "-c", script, "sh", sys.executable, "-c", look],
        capture_output=True,
        text=True,
        check=False,
    )
    if "max_user_namespaces" in done.stderr:
        pytest.skip(f"the setting cannot be changed here: {done.stderr}")
    assert done.stdout.startswith("False False The kernel's setting user.max_user_namespaces = 0 forbids"), done
    assert "to allow them: sysctl user.max_user_namespaces=" in done.stdout.splitlines()[1]


_OTHER_USER_SCRIPT = """
import os, subprocess, sys
from ostler.tools.sandbox import Profile, confine_environment, probe_sandbox, wrap
from ostler.tools.sandbox import hold_placeholders, release_placeholders
found = probe_sandbox()
print(found.works, found.as_root, found.reason)
for kind in ("read_only", "workspace"):
    profile = Profile(kind, (sys.argv[1],), sys.argv[1], home=sys.argv[1] + "/home")
    held = hold_placeholders(profile)
    script = f"cat file; echo {kind} > {kind}; mkdir .git/x; id -u"
    arguments = wrap(["/bin/bash", "-c", script], profile, found, filter_descriptor=None)
    environment = confine_environment(os.environ)
    print(subprocess.run(arguments, env=environment, stdout=-1, stderr=-3, text=True).stdout, end="")
    release_placeholders(held)
print(sorted(os.listdir(sys.argv[1])))
"""


def test_all_of_it_works_for_a_plain_user() -> None:
    require_sandbox()
    if os.getuid() != 0:
        pytest.skip("whoever runs the tests is a plain user, and the other tests show it")
    sandbox = make_harness(NOBODY)
    try:
        sandbox.put_file("project/file", "content\n")
        environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
        done = sandbox.run_process([find_python(), "-c", _OTHER_USER_SCRIPT, str(sandbox.project)], environment)
    finally:
        shutil.rmtree(sandbox.place)
    if "ModuleNotFoundError" in done.output:
        pytest.skip(f"the plain user cannot read the project or its Python packages: {done.output[-500:]}")
    lines = ["True False ", "content", str(NOBODY), "content", str(NOBODY), "['file', 'workspace']"]
    assert done.output.splitlines() == lines


def test_a_bwrap_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    found = probe_sandbox(str(tmp_path))
    assert not found.works
    assert found.bwrap == str(broken)
    assert "it cannot be started" in found.reason


def test_doctor_tells_who_it_works_for() -> None:
    for as_root, words in ((True, "it works as root"), (False, "it works as a plain user")):
        lines = describe_support(Support(True, "", "/usr/bin/bwrap", "0.8.0", user_namespaces=True, as_root=as_root))
        assert lines[-1] == ("sandbox", True, words)
