"""How clients fold a command: by what it is there for, and `echo` is neutral."""

from ostler.tools.shell.bash import Bash
from tests.support.tables import try_each

BASH = Bash()


@try_each(
    ("command", "activity"),
    [
        ("grep -rn needle src", "search"),
        ("find . -name '*.py'", "search"),
        ("cat a.txt | grep needle", "search"),
        ("ls src; rg needle", "search"),
        ("cat a.txt", "read"),
        ("head -n 5 a.txt && tail -n 5 a.txt", "read"),
        ("ls | head -n 3", "read"),
        ("ls -la", "list"),
        ("echo '--- here'; ls -la; echo '--- there'; ls ..", "list"),
        ("cd src && ls", "list"),
        ("echo hello", "run"),
        ("true", "run"),
        ("git status", "run"),
        ("ls; make", "run"),
        ("cat a.txt >b.txt", "run"),
        ("find . -delete", "run"),
        ("cat $(make)", "run"),
        ("grep 'a", "run"),
        ("", "run"),
        ("sed -n 1,5p a.txt", "read"),
        ("sed -i s/a/b/ a.txt", "edit"),
    ],
)
def test_a_command_is_folded_by_what_it_is_there_for(command: str, activity: str) -> None:
    assert BASH.activity(BASH.parse({"command": command})) == activity
