"""Ways to run a command line so that no rule about its program would see it, by class and spelling."""

from itertools import product

SHELLS = ["sh", "bash", "dash", "/bin/sh", "/usr/bin/env bash", "busybox sh", "sudo sh", "zsh", "ksh", "busybox ash"]
SHELL_OPTIONS = [
    "-c", "-ec", "-c --", "-ce", "+e -c", "-e -c", "-o errexit -c", "-oc errexit", "-eoc errexit", "-o errexit -ec",
    "-xc",
]  # fmt: skip
BASH_OPTIONS = [
    "--norc -c", "--noprofile --norc -c", "-O extglob -c", "-Oc extglob", "+O extglob -c", "--posix -c", "-pc", "-lc",
    "-ic", "--rcfile f -c", "--init-file f -c", "-cO extglob", "-O extglob -o errexit -ec", "-oOc errexit extglob",
]  # fmt: skip
BEFORE_A_PROGRAM = [
    "sudo", "sudo -n", "sudo -u root", "sudo --frobnicate x", "sudo -E -H --", "doas", "pkexec", "env", "env -i",
    "env A=1", "env - A=1", "env -u A", "env --unset=A -- ", "env --odd 1", "nice", "nice -n 5", "nice -5",
    "nice --odd 3", "nohup", "timeout 5", "timeout -s KILL 5", "timeout --unknown 5 5", "timeout --foreground -k 1 5",
    "time", "time -p", "time !", "time -p !", "!", "command", "command -p", "command --", "exec", "exec -a ls",
    "exec -cla ls", "builtin command", "stdbuf -oL", "stdbuf --output=L", "setsid", "setsid -w", "ionice",
    "ionice -c 3", "ionice -c3 -n 7", "chrt -o 0", "chrt --other 0", "taskset 1", "taskset -c 0", "setarch x86_64",
    "setarch x86_64 -R", "linux64", "x86_64", "unshare", "unshare -r", "unshare --map-root-user", "nsenter -t 1",
    "setpriv --no-new-privs", "prlimit --nofile=100", "choom -n 1 --", "choom -n 1", "flock f", "flock -n f",
    "flock --odd f", "strace", "strace -f -o /dev/null", "ltrace", "valgrind", "valgrind -q", "gdb --args",
    "perf stat", "perf record -o y", "hyperfine", "watch", "watch -n 1", "entr", "parallel", "xargs", "xargs --odd",
    "xargs -n 1", "ssh h", "ssh -o A=b h", "docker run i", "docker run --rm -v a:b i", "docker exec c",
    "docker exec -it c", "kubectl exec p --", "kubectl -n a exec -it p --", "podman run --odd 1 i", "tmux new",
    "tmux new-session -d", "screen -dm", "systemd-run", "systemd-run --user --wait", "dbus-run-session",
    "dbus-run-session --", "xvfb-run", "xvfb-run -a", "fakeroot", "fakeroot --", "proot -r /", "bwrap --dev-bind / /",
    "firejail", "firejail --quiet", "catchsegv", "npx", "uv run", "poetry run", "pipenv run", "bundle exec",
    "npm exec --", "yarn exec", "conda run -n a", "busybox", "toybox", "/lib64/ld-linux-x86-64.so.2", "ld.so",
    "unbuffer", "chroot /", "chroot --userspec=a /", "su-exec a", "gosu a", "tini --", "dumb-init", "runcon a",
    "start-stop-daemon --start --exec", "coproc", "jobs -x", "sg a -c", "script -c", "eatmydata", "faketime now",
    "numactl -N 0", "cpulimit -l 5 --", "ip netns exec a", "nix-shell -p a --run", "guix shell a --",
    "somebodys-wrapper", "somebodys-wrapper --with=it", "./wrap.sh", "python wrap.py", "make -f m SHELL=",
]  # fmt: skip


def list_hidden_lines(program: str, arguments: str) -> list[str]:
    """Ways that fit any program: the line is its name and these arguments, all without quotes of their own."""
    line = f"{program} {arguments}"
    first, _, more = program.partition(" ")
    found = [f"{before} {line}" for before in BEFORE_A_PROGRAM]
    found += [f"{shell} -c '{line}'" for shell in SHELLS]
    found += [f"sh {options} '{line}'" for options in SHELL_OPTIONS]
    found += [f"bash {options} '{line}'" for options in (*SHELL_OPTIONS, *BASH_OPTIONS)]
    found += [f"{shell} {given}" for shell, given in product(SHELLS[:4], _list_inputs(line))]
    found += [f"echo '{line}' | {reader}" for reader in READERS]
    found += [f"{reader} <<< '{line}'" for reader in READERS]
    found += [f"cat f | {reader}" for reader in READERS[:12]]
    found += _list_groups(line) + _list_builtins(line, first) + _list_evaluations(line) + _list_options(line, first)
    found += [
        f"/bin/{line}", f"./{line}", f"\\{line}", f"'{first}' {more} {arguments}",
        f"{first[0]}''{first[1:]} {more} {arguments}", f'{first[0]}"{first[1:]}" {more} {arguments}',
        f"$'{first}' {more} {arguments}", f"P={first}; $P {more} {arguments}", f"$(echo {first}) {more} {arguments}",
        f"`echo {first}` {more} {arguments}", f"{{{first},}} {more} {arguments}",
        f"$(which {first}) {more} {arguments}", f"${{X:-{first}}} {more} {arguments}", f"set -- {line}; \"$@\"",
        f"A=({line}); \"${{A[@]}}\"", f"for P in {first}; do $P {more} {arguments}; done",
        f"case a in a) {line};; esac", f"while {line}; do break; done", f"until {line}; do break; done",
        f"for ((;;)); do {line}; break; done", f"select a in b; do {line}; break; done",
        f"cp /bin/{first} p; ./p {more} {arguments}", f"ln -s /bin/{first} p; ./p {more} {arguments}",
        f"cat /bin/{first} > p; chmod +x p; ./p {more} {arguments}", f"install /bin/{first} p; ./p {more} {arguments}",
        f"cp $(which {first}) p; ./p {more} {arguments}", f"dd if=/bin/{first} of=p; ./p {more} {arguments}",
        f"echo '{line}' > s; sh s", f"echo '{line}' > s; . ./s", f"printf '{line}' | tee s; bash s",
        f"cat > s <<E\n{line}\nE\nbash s", f"echo {_encode(line)} | base64 -d > s; sh s",
        f"echo {_encode(line)} | base64 -d | sh", f"sh <(echo '{line}')", f". <(echo '{line}')",
        f"eval $(echo '{line}')", f"eval \"{line}\"", f"eval -- '{line}'", f"E='{line}'; eval $E",
        f"E='{line}'; eval \"$E\"", f"E='{line}'; bash -c \"$E\"", f"E='{line}' bash -c '$E'",
        f"P={first} somebodys-wrapper $P {more} {arguments}", f"P={first}; somebodys-wrapper $P {more} {arguments}",
    ]  # fmt: skip
    return found


READERS = [
    "sh", "bash", "bash -s", "bash -s a", "bash /dev/stdin", "bash /dev/fd/0", "bash /proc/self/fd/0", ". /dev/stdin",
    "source /dev/fd/0", "sudo bash", "env bash", "xargs -I{} sh -c '{}'", "su", "su - a", "chroot / sh", "chroot /",
    "busybox sh", "ssh host", "ssh -T host", "at now", "batch", "crontab -", "nsenter -t 1", "unshare", "sudo -s",
    "sudo -i", "doas -s", "xargs -0 env", "xargs nice", "xargs env", "parallel", "nice bash", "timeout 5 sh",
    "exec bash", "command sh", "newgrp a", "script -q f", "tmux -C", "docker exec -i c sh", "bash -", "bash --",
    "sh -x -",
]  # fmt: skip


def _encode(line: str) -> str:
    import base64

    return base64.b64encode(line.encode()).decode()


def _list_inputs(line: str) -> list[str]:
    return [
        f"<<< '{line}'", f"0<<< '{line}'", f"0<<<'{line}'", f"<<E\n{line}\nE", f"<<-'E'\n\t{line}\nE",
        f"0<<E\n{line}\nE", "< f", "0< f", "<&3", f"/dev/fd/3 3<<< '{line}'", f"/dev/stdin <<< '{line}'",
        f"<(echo '{line}')", f"-s <<< '{line}'", f"-s a b <<< '{line}'", f"3<<< '{line}' <&3",
    ]  # fmt: skip


def _list_groups(line: str) -> list[str]:
    return [
        f"true; {line}", f"true && {line}", f"false || {line}", f"true | {line}", f"true & {line}", f"true\n{line}",
        f"({line})", f"( ( {line} ) )", f"{{ {line}; }}", f"! {line}", f"if true; then {line}; fi",
        f"if false; then :; else {line}; fi", f"f() {{ {line}; }}; f", f"function f {{ {line}; }}; f",
        f"f() ({line}); f", f"echo $({line})", f"echo `{line}`", f"echo \"$({line})\"", f"cat <({line})",
        f"cat < <({line})", f": > >({line})", f"X=$({line})", f"X=$({line}) true", f"cat <<E\n$({line})\nE",
        f"cat <<< $({line})", f"coproc {{ {line}; }}", f"coproc N {{ {line}; }}", f"time ({line})",
        f"time {{ {line}; }}", f"[[ $({line}) ]]", f"echo ${{X:-$({line})}}", f"X=1 Y=2 {line}", f"> y {line}",
        f"2>/dev/null {line}", f"{line} &", f"f() {{ \"$@\"; }}; f {line}", f"f() {{ $*; }}; f {line}",
        f"{{ bash; true; }} <<< '{line}'", f"exec <<< '{line}'; bash", f"f() {{ bash; }}; f <<< '{line}'",
        f"echo '{line}' | {{ bash; }}", f"echo '{line}' | (cd .; sh)", f"while read l; do $l; done <<< '{line}'",
        f"while read l; do eval $l; done <<< '{line}'", f"echo '{line}' | while read -r l; do bash -c \"$l\"; done",
        " ".join(f"A{n}=1" for n in range(201)) + f" {line}",
        "env " + " ".join(f"A{n}=1" for n in range(201)) + f" {line}",
        "env --odd " + " ".join(f"A{n}=1" for n in range(301)) + f" {line}", "sudo " * 12 + line,
        "sudo --odd " + "a " * 500 + line, "; ".join(["true"] * 1001) + f"; {line}", "(" * 61 + line + ")" * 61,
        "$(" * 61 + line + ")" * 61, "eval " * 12 + line, f"bash -c '{'true;' * 3000} {line}'",
        f"echo {'a' * 99_990}; {line}", ": ${a} " * 1501 + f"; {line}", ": | " * 2001 + line, "`:`;" * 201 + line,
    ]  # fmt: skip


def _list_builtins(line: str, first: str) -> list[str]:
    more = line.removeprefix(first).strip()
    return [
        f"compgen -C '{line}'", f"compgen -C '{line}' a", f"compgen -W '$({line})'", f"compgen -W '`{line}`' -- a",
        f"complete -C '{line}' a", f"mapfile -C '{line}' -c 1 <<< a", f"mapfile -c1 -C'{line}' A <<< a",
        f"readarray -C '{line} #' -c 1 <<< a", f"jobs -x {line}", f"hash -p /bin/{first} foo; foo {more}",
        f"hash -p $P foo; foo {more}", f"bind -x '\"a\": {line}'", f"fc -s {first}", f"fc -e '{line}'",
        f"trap '{line}' EXIT", f"trap -- '{line}' 0", f"trap '{line}' DEBUG; :", f"exec -a ls {line}",
        f"enable -f /usr/lib/bash/{first} {first}; {line}", f"alias a='{line}'; a",
        f"shopt -s expand_aliases; alias a={first}\na {more}", f"command -p {line}", f"builtin eval '{line}'",
        f"builtin . /dev/stdin <<< '{line}'", f"command eval '{line}'",
        f"env 'BASH_FUNC_ls%%=() {{ {line}; }}' bash -c ls", f"BASH_ENV=<(echo '{line}') bash -c :",
        f"BASH_ENV=/dev/stdin bash -c : <<< '{line}'", f"PROMPT_COMMAND='{line}' bash -i", f"PS1='$({line})' bash -i",
        f"PS4='$({line})'; set -x; :", f"PS4='$({line})' bash -xc :", f"PS4='`{line}`' sh -xc :",
        f"export PS4='$({line})'; bash -xc :", f"declare -x PS4='$({line})'; set -x; :",
        f"printf -v PS4 %s '$({line})'; set -x; :", f"read PS4 <<< '$({line})'; set -x; :",
        f"env PS4='$({line})' bash -xc :", f"X='$({line})'; echo ${{X@P}}", f"X='`{line}`'; echo \"${{X@P}}\"",
        f"bash -c 'echo \"${{0@P}}\"' '$({line})'", f"X='$({line})'; : \"${{X[0]@P}}\"", f"PAGER='{line}' git log",
        f"EDITOR='{line} #' git commit", f"GIT_SSH_COMMAND='{line} #' git fetch",
        f"GIT_EXTERNAL_DIFF='{line} #' git diff", f"LESSOPEN='|{line}' less f", f"MANPAGER='{line}' man ls",
        f"export EDITOR='{line}'; git commit", f"env PAGER='{line}' git log",
        f"GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!{line}' git x",
        f"GIT_CONFIG_PARAMETERS=\"'alias.x=!{line}'\" git x",
    ]  # fmt: skip


def _list_evaluations(line: str) -> list[str]:
    text = f"a[$({line})]"
    return [
        f"echo $(({text}))", f"(({text}))", f"X='{text}'; ((X))", f"X='{text}'; echo $((X))", f"X='{text}'; echo $[X]",
        f"let '{text}'", f"let X='{text}'", f"declare -i X='{text}'", f"declare -i X; X='{text}'",
        f"typeset -i X='{text}'", f"local -i X='{text}'", f"test -v '{text}'", f"[ -v '{text}' ]",
        f"[[ -v '{text}' ]]", f"[[ '{text}' -eq 0 ]]", f"X='{text}'; [[ X -eq 0 ]]", f"printf -v '{text}' a",
        f"unset '{text}'", f"read '{text}' <<< a", f"X='{text}'; echo ${{!X}}", f"X='{text}'; echo ${{A[X]}}",
        f"X='{text}'; echo ${{PATH:X}}", f"X='{text}'; echo ${{PATH:0:X}}", f"X='{text}'; for ((X; 0; )); do :; done",
        f"A[$({line})]=1", f"X='{text}'; A[X]=1", f"declare 'A[$({line})]=1'", f"export 'X={text}'; ((X))",
        f"X='$({line})'; echo $((a[$X]))", f"wait -p '{text}'", f"getopts a '{text}'", f"mapfile '{text}' <<< a",
        f"read -a '{text}' <<< b", f"declare -n R='{text}'; echo $R", f"bash -c 'test -v \"$1\"' _ '{text}'",
        f"X='a[`{line}`]'; ((X))", f"while ((X)); do :; done <<< '{text}'",
    ]  # fmt: skip


def _list_options(line: str, first: str) -> list[str]:
    """Options of other programs that run a line."""
    return [
        f"env -S '{line}'", f"env -S'{line}'", f"env --split-string='{line}'", f"env --split='{line}'",
        f"env -iS '{line}'", f"env -vS '{line}'", f"env -S 'A=1 {line}'", f"env -S nice {line}",
        f"env -S '{line.replace(' ', chr(92) + '_')}'", f"script -c '{line}' f", f"script -qc '{line}' /dev/null",
        f"script --command='{line}'", f"script --comm '{line}'", f"su -c '{line}'", f"su a -c '{line}'",
        f"su --command='{line}'", f"runuser -u a -- {line}", f"flock f -c '{line}'", f"watch '{line}'",
        f"watch -x {line}", f"parallel '{line}' ::: a", f"hyperfine '{line}'", f"hyperfine --runs 1 '{line}'",
        f"tmux new '{line}'", f"tmux run-shell '{line}'", f"screen -dmS a sh -c '{line}'", f"expect -c 'spawn {line}'",
        f"find . -exec {line} ;", f"find . -exec {line} \\;", f"find . -execdir {line} +", f"find . -ok {line} \\;",
        f"find . -exec sh -c '{line}' \\;", f"fd -x {line}", f"fd --exec={first}", f"fd . -X {line}",
        f"find . -name y -o -exec env {line} \\;", f"tar cf y f --to-command='{line}'",
        f"tar xf y --to-command '{line}'", f"tar cf y f --checkpoint=1 --checkpoint-action=exec='{line}'",
        f"tar cf y -I '{line}' f", f"tar --use-compress-program='{line}' -cf y f", f"tar cIf '{line}' y f",
        f"rsync -e '{line}' a h:b", f"rsync --rsh='{line}' a h:b", f"ssh -o ProxyCommand='{line}' h",
        f"ssh -oProxyCommand='{line}' h", f"scp -S '{line}' a h:b", f"scp -o 'ProxyCommand={line}' a h:b",
        f"sort --compress-program='{first}' f", f"split --filter='{line}' f", f"split -l 1 --filter '{line}' f",
        f"less '+!{line}' f", f"man -P '{line}' ls", f"man --pager='{line}' ls", f"zip -TT '{line}' y f",
        f"rg --pre '{first}' a", f"rg --pre={first} a .", f"git grep -O'{line}' a", f"git -c core.pager='{line}' log",
        f"git -c alias.x='!{line}' x", f"git -c core.editor='{line}' commit", f"git -c core.sshCommand='{line}' fetch",
        f"git -c diff.external='{line}' diff", f"git -c credential.helper='!{line}' fetch",
        f"git config alias.x '!{line}'; git x", f"git config --global alias.x '!{line}'",
        f"git -c core.fsmonitor='{line}' status", f"git clone -c core.sshCommand='{line}' u",
        f"git clone --config core.fsmonitor='{line}' u", f"git clone 'ext::{line}'", f"git submodule foreach '{line}'",
        f"git submodule --quiet foreach {line}", f"git bisect run {line}", f"git bisect run sh -c '{line}'",
        f"git rebase -x '{line}' HEAD~1", f"git rebase --exec='{line}' HEAD~1", f"git rebase -i -x'{line}' HEAD~1",
        f"git filter-branch --tree-filter '{line}' HEAD", f"git difftool -x '{line}' a",
        f"git difftool --extcmd='{line}' a", f"git fetch --upload-pack='{line}' u",
        f"git ls-remote --upload-pack '{line}' u", f"make SHELL='{line}'", f"make --eval='x:;{line}' x",
        f"make -f - x <<< 'x:;{line}'", f"make CC='{line}'", f"make X='$(shell {line})'",
        f"make -f /dev/stdin x <<< 'x:;{line}'", f"gcc -wrapper {first},a f.c", f"go build -toolexec '{line}' .",
        f"go vet -vettool={first} .", f"start-stop-daemon --start --exec /bin/{first} -- a",
        f"coreutils --coreutils-prog={first} x", f"nix-shell --run '{line}'", f"npx -c '{line}'",
        f"npm exec -c '{line}'", f"socat - EXEC:'{line}'", f"systemd-run --user sh -c '{line}'",
        f"python -c \"import os; os.system('{line}')\"", f"python3 -c \"import os; os.system('{line}')\"",
        f"python -Bc \"import os; os.system('{line}')\"", f"python -c'import os;os.system(\"{line}\")'",
        f"python - <<< \"import os; os.system('{line}')\"", f"python <<< \"import os; os.system('{line}')\"",
        f"python3.11 <<E\nimport os\nos.system('{line}')\nE",
        f"python -m timeit -s \"import os; os.system('{line}')\"", f"python -m pdb -c '!{line}'",
        f"echo \"import os; os.system('{line}')\" | python3", f"perl -e 'system(\"{line}\")'", f"perl -e'`{line}`'",
        f"perl -le 'exec \"{line}\"'", f"perl -ne 'system \"{line}\"' f", f"perl -E 'system(\"{line}\")'",
        f"perl -MPOSIX -e 'system \"{line}\"'", f"perl -M'POSIX;system(\"{line}\")' -e 1",
        f"perl -pe 's/a/`{line}`/e' f", f"perl <<< 'system(\"{line}\")'", f"perl - <<< 'system(\"{line}\")'",
        f"ruby -e 'system(\"{line}\")'", f"ruby -e '`{line}`'",
        f"node -e 'require(\"child_process\").execSync(\"{line}\")'",
        f"node --eval='require(\"child_process\").execSync(\"{line}\")'",
        f"node -p 'require(\"child_process\").execSync(\"{line}\")'",
        f"node -pe 'require(\"child_process\").execSync(\"{line}\")'",
        f"node - <<< 'require(\"child_process\").execSync(\"{line}\")'",
        f"node <<< 'require(\"child_process\").execSync(\"{line}\")'", f"php -r 'system(\"{line}\");'",
        f"lua -e 'os.execute(\"{line}\")'", f"awk 'BEGIN{{system(\"{line}\")}}'",
        f"awk 'BEGIN {{ \"{line}\" | getline }}'", f"awk 'BEGIN {{ print \"{line}\" | \"sh\" }}'",
        f"gawk -f - <<< 'BEGIN{{system(\"{line}\")}}'", f"mawk '{{system(\"{line}\")}}' f",
        f"awk -v x='{line}' 'BEGIN{{system(x)}}'", f"awk \"BEGIN{{system(\\\"{line}\\\")}}\"",
        f"echo a | awk '/a/{{system(\"{line}\")}}'", f"sed '1e {line}' f", f"sed -n '1e {line}' f",
        f"sed -e '1e {line}' f", f"sed 's/.*/{line}/e' f", f"sed --expression='1e {line}' f",
        f"sed -f - f <<< '1e {line}'", f"sed -n -e p -e '1e {line}' f", f"echo '{line}' | sed e",
        f"echo '{line}' | sed 's/^//e'", f"sed '1!G;h;$!d;e {line}' f", f"sed -f /dev/stdin f <<< '1e {line}'",
        f"vim -c '!{line}' -c q", f"vim +'!{line}' +q", f"vim --cmd '!{line}'", f"vi -es <<< '!{line}'",
        f"ex -s f <<< '!{line}'", f"ex -sc '!{line}' -cq", f"ed f <<< '!{line}'", f"echo '!{line}' | ed",
        f"emacs --batch --eval '(shell-command \"{line}\")'", f"gdb -ex 'shell {line}' -ex q",
        f"gdb <<< 'shell {line}'", f"gdb --batch -ex '!{line}'", f"sqlite3 db '.shell {line}'",
        f"sqlite3 db <<< '.shell {line}'", f"sqlite3 db '.system {line}'", f"psql -c '\\! {line}'",
        f"psql <<< '\\! {line}'", f"mysql -e '\\! {line}'", f"tclsh <<< 'exec {line}'", f"echo 'exec {line}' | tclsh",
        f"m4 <<< 'syscmd({line})'", f"expect <<< 'spawn {line}'", f"Rscript -e 'system(\"{line}\")'",
        f"at now <<< '{line}'", f"echo '{line}' | at now", f"crontab - <<< '* * * * * {line}'", f"batch <<< '{line}'",
        f"cmake -E env {line}", f"cmake -E time {line}", f"cmake -P /dev/stdin <<< 'execute_process(COMMAND {line})'",
    ]  # fmt: skip


REMOVING_HERE = [
    "env", "env -i", "env A=1", "env - A=1", "nice", "nice -n 5", "nohup", "timeout 5", "timeout -s KILL 5", "time",
    "time -p", "time !", "!", "command", "command -p", "exec", "exec -a ls", "exec -cla ls", "builtin command",
    "stdbuf -oL", "setsid -w", "flock f", "flock -n f", "coproc", "jobs -x", "xargs", "xargs -n 1",
]  # fmt: skip


def list_removing_lines() -> list[str]:
    """Those of the ways above, and others, that remove the file `x` wherever the usual programs are."""
    text = "a[$(rm x)]"
    found = [f"{before} rm x </dev/null" for before in REMOVING_HERE]
    found += [f"sh {options} 'rm x'" for options in SHELL_OPTIONS if options != "-oc errexit" and "-eoc" not in options]
    found += [f"bash {options} 'rm x'" for options in (*SHELL_OPTIONS, *BASH_OPTIONS) if options not in {"-ic"}]
    found += [f"bash {given}" for given in _list_inputs("rm x") if given not in {"< f", "0< f", "<&3"}]
    found += [f"echo 'rm x' | {reader}" for reader in READERS[:9]]
    found += [
        f"X='{text}'; ((X))", f"echo $(({text}))", f"let '{text}'", f"declare -i X='{text}'", f"test -v '{text}'",
        f"[[ -v '{text}' ]]", f"[[ '{text}' -eq 0 ]]", f"printf -v '{text}' a", f"read '{text}' <<< a",
        f"X='{text}'; echo ${{PATH:X}}", f"X='{text}'; A[X]=1", f"X='{text}'; echo ${{A[X]}}",
        "X='$(rm x)'; echo ${X@P}", "PS4='$(rm x)'; set -x; :", "read PS4 <<< '$(rm x)'; set -x; :",
        "printf -v PS4 %s '$(rm x)'; set -x; :", "compgen -C 'rm x #'", "compgen -W '$(rm x)'",
        "mapfile -C 'rm x;:' -c 1 <<< a", "hash -p /bin/rm foo; foo x", "hash -p $(command -v rm) foo; foo x",
        "trap 'rm x' EXIT", "trap 'rm x' DEBUG; :", "BASH_ENV=<(echo 'rm x') bash -c :",
        "env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls", "shopt -s expand_aliases; alias a=rm\na x", "env -S 'rm x'",
        "env -S'rm x'", "env --split-string='rm x'", "env -iS '/bin/rm x'", "env -S 'rm\\_x'", "env -S nice rm x",
        "find . -name x -delete", "find x -exec rm {} +", "find x -execdir rm {} \\;",
        "find . -name x -exec env rm {} \\;", "unlink x", "shred -u x", "awk 'BEGIN{system(\"rm x\")}'",
        "awk 'BEGIN { \"rm x\" | getline }'", "awk 'BEGIN { print \"rm x\" | \"sh\" }'",
        "awk -v c='rm x' 'BEGIN{system(c)}'", "echo a | sed '1e rm x'", "echo 'rm x' | sed e",
        "echo a | sed 's/.*/rm x/e'", "echo a | sed -n '1!G;h;$!d;e rm x'", "echo a | sed -f <(echo '1e rm x')",
        "tar cf y x --remove-files", "tar cf /dev/null f --checkpoint=1 --checkpoint-action=exec='rm x'",
        "tar cf y -I 'rm x;cat' f", "split --filter='rm x' f", "cp /bin/rm p; ./p x", "ln -s /bin/rm p; ./p x",
        "cat /bin/rm > p; chmod +x p; ./p x", "dd if=/bin/rm of=p 2>/dev/null; chmod +x p; ./p x",
        "echo 'rm x' > s; sh s", "echo 'rm x' > s; . ./s", "echo cm0geAo= | base64 -d | sh",
        "echo cm0geAo= | base64 -d > s; sh s", ". <(echo 'rm x')", "set -- rm x; \"$@\"", "A=(rm x); \"${A[@]}\"",
        "for P in rm; do $P x; done", "P=rm; nice $P x", "{rm,x}", "/bin/r[m] x", "$'\\x72m' x", "r''m x",
        "f() { \"$@\"; }; f rm x", "f() { bash; }; f <<< 'rm x'", "exec <<< 'rm x'; bash",
        "{ bash; true; } <<< 'rm x'", "while read l; do $l; done <<< 'rm x'", "xargs -I{} sh -c '{}' <<< 'rm x'",
        "xargs -a <(echo x) rm", "perl -e 'unlink \"x\"'", "echo x | perl -lne unlink",
        "perl -M'POSIX;unlink(\"x\")' -e 1", "python3 -c 'import os; os.remove(\"x\")'",
        "python3 <<< 'import os; os.remove(\"x\")'", "python3 -m timeit -n 1 -r 1 -s 'import os; os.remove(\"x\")'",
        "git init -q . && git -c alias.y='!rm x' y", "git init -q . && git add x && git rm -qf x",
        "git init -q . && git clean -fq x",
        "git init -q . && GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.y GIT_CONFIG_VALUE_0='!rm x' git y",
        "git init -q . && git config alias.y '!rm x' && git y", "echo x | xargs env rm", "echo 'rm x' | xargs env",
        "eval $(echo 'rm x')", "E='rm x'; eval \"$E\"", "E='rm x' bash -c '$E'", "cat <<E\n$(rm x)\nE",
        "cat < <(rm x)", ": > >(rm x); wait $!", "coproc N { rm x; }; wait",
        " ".join(f"A{n}=1" for n in range(201)) + " rm x", "env " + " ".join(f"A{n}=1" for n in range(201)) + " rm x",
        "eval " * 12 + "rm x", "command " * 12 + "rm x", "; ".join(["true"] * 1001) + "; rm x",
    ]  # fmt: skip
    return found
