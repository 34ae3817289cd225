"""`gangstart cluster` on a real Slurm: what comes up, works, and stays behind."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
import pytest
from gangstart.cluster import Cluster, Spec, process, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.cluster

PRIVATE = ("/tmp", "/dev/shm", "/run", "/run/gangstart")  # noqa: S108  what is tested
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
EMPTY_PLUGIN = """\
#include <stddef.h>
#include <slurm/spank.h>
SPANK_PLUGIN(empty, 1)
static int given(int v, const char *a, int r) { (void)v; (void)a; (void)r; return 0; }
struct spank_option spank_options[] = {
    {"empty-flag", 0, "An option nobody needs", 0, 0, given}, SPANK_OPTIONS_TABLE_END};
int slurm_spank_init(spank_t s, int ac, char **av)
{
    (void)s;
    for (int i = 0; i < ac; i++)
        slurm_info("empty plugin got %s", av[i]);
    return 0;
}
"""


COMMAND = (sys.executable, "-m", "gangstart", "cluster")


def tool(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `gangstart cluster …` as a user would, in a pipe."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def start_up(name: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """Begin `gangstart cluster up` without waiting for it."""
    return subprocess.Popen(
        [*COMMAND, "up", "--name", name],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def mounts() -> set[str]:
    """Every mount this process can see."""
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def named_namespaces() -> list[str]:
    """The network namespaces with a name."""
    folder = Path("/run/netns")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def traces(directory: str) -> list[str]:
    """What a cluster has left: processes that know of its directory, and files."""
    found = [directory] if Path(directory).exists() else []
    for pid in process.pids():
        for name in ("cmdline", "environ"):
            try:
                text = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            if f"{directory}/".encode() in text or f"{directory}\0".encode() in text:
                found.append(f"{pid} {process.command_name(pid)}")
    return found


def until(ready: Callable[[], bool], what: str) -> None:
    """Wait for something with a deadline."""
    end = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def place(name: str) -> str:
    """Directory of a cluster in the default place."""
    return str(state.base() / name)


def test_up_run_and_down_leave_nothing(name: str) -> None:
    before = (mounts(), named_namespaces(), Path("/run/gangstart").exists())
    shown = tool("up", "--name", name, "--no-plugin")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.fullmatch(
        rf"cluster {name}: 4 nodes n\[1-4\] up without the plugin in \d+\.\d s · "
        rf"try: gangstart cluster run --name {name} -- srun -N4 hostname\n",
        shown.stdout,
    )
    assert (mounts(), named_namespaces()) == before[:2]
    pids = Cluster(name).pids()
    assert set(pids.values()) == {"head", "n1", "n2", "n3", "n4"}
    ran = tool("run", "--name", name, "--", "srun", "-N4", "hostname")
    assert sorted(ran.stdout.split()) == ["n1", "n2", "n3", "n4"]
    tool(
        "run",
        "--name",
        name,
        "--",
        "sh",
        "-c",
        "sleep 300 >&- 2>&- & setsid sleep 300 >&- 2>&- &",
    )
    gone = tool("down", "--name", name)
    assert (gone.returncode, gone.stdout) == (0, f"cluster {name}: down\n")
    assert traces(place(name)) == []
    after = (mounts(), named_namespaces(), Path("/run/gangstart").exists())
    assert after == before
    assert [pid for pid in pids if process.start_time(pid) is not None] == []


def test_down_of_nothing_is_no_error(name: str) -> None:
    gone = tool("down", "--name", name)
    assert gone.returncode == 0
    assert gone.stdout == f"cluster {name}: there was none\n"


def test_a_command_on_a_cluster_that_does_not_exist_says_how_to_get_one(
    name: str,
) -> None:
    ran = tool("run", "--name", name, "--", "true")
    assert ran.returncode == 1
    assert f"cluster {name} does not exist" in ran.stderr
    assert f"gangstart cluster up --name {name}" in ran.stderr


def test_a_second_up_is_refused_and_does_no_harm(cluster: Cluster) -> None:
    shown = tool("up", "--name", cluster.spec.name)
    assert shown.returncode == 1
    assert "exists already" in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert cluster.run(["srun", "-N4", "true"]).returncode == 0


def test_two_clusters_run_side_by_side(
    cluster: Cluster, make_cluster: Callable[[Spec], Cluster], name: str
) -> None:
    other = make_cluster(Spec(name=name, nodes=2))
    assert sorted(other.run(["srun", "-N2", "hostname"]).stdout.split()) == ["n1", "n2"]
    # Same names and addresses, and yet each controller knows its own cluster only.
    for one in (cluster, other):
        shown = one.run(["scontrol", "show", "config"]).stdout
        assert re.search(rf"^ClusterName\s*= {one.spec.name}$", shown, re.MULTILINE)
    other.down()
    assert cluster.run(["srun", "-N4", "true"]).returncode == 0


def test_a_nodes_tmp_shm_and_spool_are_its_own(cluster: Cluster) -> None:
    for folder in PRIVATE:
        assert cluster.run(["touch", f"{folder}/mark"], node="n1").returncode == 0
        assert cluster.run(["test", "-e", f"{folder}/mark"], node="n2").returncode == 1
        assert cluster.run(["rm", f"{folder}/mark"], node="n1").returncode == 0
        assert not Path(folder, "mark").exists()
    cluster.run(["touch", "/run/gangstart/mark"], node="n3")
    mark = cluster.directory / "node" / "n3" / "run" / "mark"
    assert mark.exists()
    mark.unlink()


def test_nodes_reach_each_other_by_name(cluster: Cluster) -> None:
    shown = cluster.run(["getent", "hosts", "n3"], node="n1")
    assert shown.stdout.split() == ["10.98.1.3", "n3"]


def test_the_exit_code_is_the_commands(cluster: Cluster) -> None:
    ran = tool("run", "--name", cluster.spec.name, "--", "sh", "-c", "exit 7")
    assert ran.returncode == 7
    assert cluster.run(["srun", "sh", "-c", "exit 9"]).returncode == 9


def test_a_command_that_is_not_there_is_127_in_one_sentence(cluster: Cluster) -> None:
    ran = tool("run", "--name", cluster.spec.name, "--", "no-such-command")
    assert ran.returncode == 127
    assert ran.stderr.count("\n") == 1
    assert "'no-such-command' not found on head" in ran.stderr


def test_a_node_that_is_not_there_names_those_that_are(cluster: Cluster) -> None:
    ran = tool("run", "--name", cluster.spec.name, "--node", "n9", "--", "true")
    assert ran.returncode == 2
    assert "no node 'n9': head or n[1-4]" in ran.stderr


def test_a_signal_reaches_the_command_itself(cluster: Cluster) -> None:
    running = cluster.popen(["sleep", "300"])
    until(lambda: process.command_name(running.pid) == "sleep", "sleep")
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == -signal.SIGTERM


def test_a_broken_pipe_ends_the_command_as_in_a_shell(cluster: Cluster) -> None:
    # Python ignores SIGPIPE; a command that inherited that would never end.
    running = cluster.popen(["yes"], stdout=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.close()
    assert running.wait(30) == -signal.SIGPIPE


def test_a_terminal_is_passed_through(cluster: Cluster) -> None:
    ours, theirs = os.openpty()
    running = cluster.popen(
        ["tty"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    out, _ = running.communicate(timeout=30)
    assert out == f"{os.ttyname(theirs)}\n"
    os.close(ours)
    os.close(theirs)


def test_the_directory_is_kept_and_jobs_write_there(cluster: Cluster) -> None:
    with tempfile.TemporaryDirectory(dir=cluster.directory) as folder:
        out = Path(folder, "out")
        command = ["sbatch", "-N2", "--output=out", "--wrap=srun hostname"]
        ran = tool("run", "--name", cluster.spec.name, "--", *command, cwd=Path(folder))
        assert ran.returncode == 0, ran.stderr
        until(lambda: out.exists() and out.read_text().count("\n") == 2, "the job")
        assert sorted(out.read_text().split()) == ["n1", "n2"]


def test_a_directory_the_node_lacks_is_said_and_not_fatal(
    cluster: Cluster, tmp_path: Path
) -> None:
    ran = tool("run", "--name", cluster.spec.name, "--", "pwd", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "/\n")
    assert f"head has no {tmp_path}" in ran.stderr


@needs_root
def test_an_ordinary_users_command_is_that_user_everywhere(cluster: Cluster) -> None:
    who = "nobody"
    entry = pwd.getpwnam(who)
    script = 'echo "$(id -u) $(id -G) $HOME $USER"'
    ran = cluster.run(["sh", "-c", script], user=who)
    assert ran.stdout == f"{entry.pw_uid} {entry.pw_gid} {entry.pw_dir} {who}\n"
    ran = cluster.run(["srun", "-N4", "-D/", "id", "-un"], user=who)
    assert ran.stdout.split() == [who] * 4, ran.stderr


@needs_root
def test_a_user_that_is_not_there_is_named(cluster: Cluster) -> None:
    shown = ["run", "--name", cluster.spec.name, "--user", "no-such-user", "--", "id"]
    ran = tool(*shown)
    assert ran.returncode == 2
    assert "no user 'no-such-user'" in ran.stderr


def test_status_tells_people_and_programs(cluster: Cluster) -> None:
    facts = json.loads(tool("status", "--name", cluster.spec.name, "--json").stdout)
    assert facts["phase"] == "up"
    assert facts["directory"] == str(cluster.directory)
    assert [n["name"] for n in facts["nodes"]] == ["n1", "n2", "n3", "n4"]
    assert facts["nodes"][2]["address"] == "10.98.1.3"
    for row in facts["nodes"]:
        assert process.command_name(row["slurmd_pid"]) == "slurmd"
    assert process.command_name(facts["head"]["slurmctld_pid"]) == "slurmctld"
    text = tool("status", "--name", cluster.spec.name).stdout
    assert re.search(r"^n3 +idle +10\.98\.1\.3 +\d+$", text, re.MULTILINE)


def test_slurmd_can_hang_go_on_die_and_come_back(
    make_cluster: Callable[[Spec], Cluster], name: str
) -> None:
    one = make_cluster(Spec(name=name, nodes=2))

    def node(verb: str) -> subprocess.CompletedProcess[str]:
        return tool("node", verb, "n2", "--name", name)

    def state_letter() -> str:
        (pid,) = one.node_pids("n2", "slurmd")
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    assert node("stop").returncode == 0
    until(lambda: state_letter() == "T", "a stopped slurmd")
    assert node("cont").returncode == 0
    until(lambda: state_letter() == "S", "a running slurmd")
    assert one.run(["srun", "-N2", "true"]).returncode == 0
    assert node("kill").returncode == 0
    assert one.node_pids("n2", "slurmd") == []
    again = node("kill")
    assert again.returncode == 1
    assert "no slurmd runs on n2" in again.stderr
    assert node("start").returncode == 0
    ran = one.run(["srun", "-N2", "hostname"])
    assert sorted(ran.stdout.split()) == ["n1", "n2"], ran.stderr
    assert "runs on n2 already" in node("start").stderr


def test_a_pulled_cable_cuts_one_node_off_and_heals(
    make_cluster: Callable[[Spec], Cluster], name: str
) -> None:
    one = make_cluster(Spec(name=name, nodes=2))

    def reaches(node: str) -> bool:
        code = f"import socket; socket.create_connection(('{node}', 6818), timeout=1)"
        return one.run([sys.executable, "-I", "-c", code]).returncode == 0

    assert tool("link", "down", "n2", "--name", name).returncode == 0
    assert (reaches("n1"), reaches("n2")) == (True, False)
    assert tool("link", "up", "n2", "--name", name).returncode == 0
    until(lambda: reaches("n2"), "the cable to be back")
    assert one.run(["srun", "-N2", "true"]).returncode == 0
    head = tool("link", "down", "head", "--name", name)
    assert (head.returncode, head.stderr.count("\n")) == (2, 1)


@pytest.fixture
def bin_with() -> Iterator[Callable[[str, str], dict[str, str]]]:
    """Put a program of the test's own before Slurm's: an environment with its PATH."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:

        def make(program: str, script: str) -> dict[str, str]:
            path = Path(folder, program)
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

        yield make


@pytest.mark.parametrize("program", ["munged", "slurmctld", "slurmd"])
def test_an_up_that_fails_says_why_and_leaves_nothing(
    name: str, program: str, bin_with: Callable[[str, str], dict[str, str]]
) -> None:
    script = f'[ "$1" = -V ] && exit; echo "{program}: fatal: port in use" >&2; exit 3'
    shown = tool("up", "--name", name, "--no-plugin", env=bin_with(program, script))
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.count("\n") == 1
    assert "ended with code 3" in shown.stderr
    assert f"{program}: fatal: port in use" in shown.stderr
    assert traces(place(name)) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_an_up_that_is_interrupted_leaves_nothing(
    name: str,
    number: signal.Signals,
    code: int,
    bin_with: Callable[[str, str], dict[str, str]],
) -> None:
    going = start_up(name, env=bin_with("slurmctld", "exec sleep 300"))
    log = Path(place(name), "log", "slurmctld.err")
    until(log.exists, "slurmctld to be started")
    going.send_signal(number)
    assert going.communicate(timeout=30) == ("", "")
    assert going.returncode == code
    assert traces(place(name)) == []


def test_down_ends_what_a_killed_up_left(
    name: str, bin_with: Callable[[str, str], dict[str, str]]
) -> None:
    going = start_up(name, env=bin_with("slurmctld", "exec sleep 300"))
    log = Path(place(name), "log", "slurmctld.err")
    until(log.exists, "slurmctld to be started")
    going.kill()
    going.communicate(timeout=30)
    assert traces(place(name)) != []
    assert tool("down", "--name", name).returncode == 0
    assert traces(place(name)) == []


def test_down_works_after_the_keeper_died(name: str) -> None:
    Cluster.up(Spec(name=name, nodes=2))
    one = Cluster(name)
    os.kill(one.state.keeper, signal.SIGKILL)
    until(lambda: not process.keeper_alive(one.state), "the keeper to end")
    ran = tool("run", "--name", name, "--", "true")
    assert ran.returncode == 1
    assert f"gangstart cluster down --name {name}" in ran.stderr
    assert (
        json.loads(tool("status", "--name", name, "--json").stdout)["phase"] == "ended"
    )
    assert tool("down", "--name", name).returncode == 0
    assert traces(place(name)) == []


def test_down_works_when_slurmd_is_stopped_and_jobs_ignore_term(name: str) -> None:
    one = Cluster.up(Spec(name=name, nodes=2))
    stubborn = one.popen(
        ["srun", "-N2", "sh", "-c", "trap '' TERM; touch /run/gangstart/on; sleep 300"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until((one.directory / "node/n2/run/on").exists, "the job")
    one.signal_slurmd("n2", "stop")
    assert tool("down", "--name", name).returncode == 0
    stubborn.wait(30)
    assert traces(place(name)) == []


def test_down_after_a_restart_of_the_machine_touches_no_process(name: str) -> None:
    # What a restart leaves: the files, and a state that names another boot, and a
    # keeper's pid that now is somebody else's. Here: this test's own.
    directory = state.claim(state.base(), name, "")
    own = process.start_time(os.getpid())
    assert own is not None
    old = state.State(
        spec=Spec(name=name, directory=str(directory)),
        boot_id="another",
        keeper=os.getpid(),
        keeper_start=own,
        spaces={"head": {"net": 0}},
    )
    state.write(old)
    assert "is not running" in tool("run", "--name", name, "--", "true").stderr
    assert tool("down", "--name", name).returncode == 0
    assert not directory.exists()


def test_down_refuses_to_remove_what_is_mounted_inside(name: str) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to mount")
    Cluster.up(Spec(name=name, nodes=1))
    inside = Path(place(name), "mnt")
    inside.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", inside], check=True, timeout=30)
    (inside / "precious").touch()
    try:
        gone = tool("down", "--name", name)
        assert gone.returncode == 1
        assert f"{inside} is a mount point" in gone.stderr
        assert (inside / "precious").exists()
    finally:
        subprocess.run(["umount", inside], check=True, timeout=30)
    assert tool("down", "--name", name).returncode == 0
    assert traces(place(name)) == []


def test_a_cluster_cannot_take_itself_down(cluster: Cluster) -> None:
    argv = [sys.executable, "-m", "gangstart", "cluster", "down"]
    root = str(Path(gangstart.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": root}
    ran = cluster.run([*argv, "--name", cluster.spec.name], env=env)
    assert ran.returncode == 1
    assert "runs on one of its nodes" in ran.stderr
    assert cluster.run(["srun", "-N4", "true"]).returncode == 0


def test_a_directory_of_ones_own_is_used_and_removed(
    make_cluster: Callable[[Spec], Cluster], name: str
) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:
        own = Path(outside, "a", "b")
        one = make_cluster(Spec(name=name, nodes=1, directory=str(own)))
        assert one.directory == own
        assert (own / "log" / "slurmctld.log").exists()
        assert one.run(["srun", "hostname"]).stdout == "n1\n"
        one.down()
        assert not own.exists()
        assert not Path(place(name)).is_symlink()


def test_the_daemons_neither_hold_the_callers_pipe_nor_its_descriptors(
    name: str,
) -> None:
    # Were the pipe inherited, `gangstart cluster up | cat` would never end; tool()
    # reads until its end, and times out. A descriptor passed on must be closed too.
    receive, send = os.pipe()
    os.set_inheritable(send, True)  # noqa: FBT003  the function's only argument
    shown = subprocess.run(
        [sys.executable, "-m", "gangstart", "cluster", "up", "--name", name],
        capture_output=True,
        timeout=60,
        check=False,
        pass_fds=(send,),
    )
    os.close(send)
    assert shown.returncode == 0
    with os.fdopen(receive, "rb") as pipe:
        assert pipe.read() == b""


def test_the_plugin_is_loaded_with_its_arguments_from_a_copy(
    make_cluster: Callable[[Spec], Cluster], name: str
) -> None:
    compiler = shutil.which("gcc")
    if compiler is None or not Path("/usr/include/slurm/spank.h").exists():
        pytest.skip("needs gcc and slurm/spank.h (apt-get install gcc libslurm-dev)")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        source, built = Path(folder, "empty.c"), Path(folder, "empty.so")
        source.write_text(EMPTY_PLUGIN)
        command = [compiler, "-shared", "-fPIC", "-o", str(built), str(source)]
        subprocess.run(command, check=True, timeout=60)
        spec = Spec(
            name=name,
            nodes=1,
            plugin=str(built),
            plugin_mode="required",
            plugin_args=("color=red",),
        )
        one = make_cluster(spec)
    # The original is gone by now: the daemons have their own copy.
    assert "--empty-flag" in one.run(["srun", "--help"]).stdout
    ran = one.run(["srun", "--empty-flag", "true"])
    assert ran.returncode == 0, ran.stderr
    assert f"empty plugin got archive={one.directory}/archive" in ran.stderr
    assert "empty plugin got color=red" in ran.stderr


def test_a_line_of_slurm_conf_takes_effect(
    make_cluster: Callable[[Spec], Cluster], name: str
) -> None:
    one = make_cluster(Spec(name=name, nodes=1, slurm_lines=("KillWait=7",)))
    shown = one.run(["scontrol", "show", "config"]).stdout
    assert re.search(r"^KillWait\s*= 7 sec$", shown, re.MULTILINE)


@pytest.fixture
def ordinary_user() -> Iterator[str]:
    """A user made for the test, with a home, and removed after it."""
    if os.getuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("needs root and useradd to make an ordinary user")
    user = f"gs{os.getpid()}"
    subprocess.run(["useradd", "-m", user], check=True, timeout=30)
    yield user
    subprocess.run(
        ["userdel", "-r", user], check=True, timeout=30, stderr=subprocess.DEVNULL
    )


def test_an_ordinary_user_has_a_cluster_too(ordinary_user: str, possible: None) -> None:  # noqa: ARG001  it skips
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip(f"needs a Python every user may run: {python}")
    allowed = subprocess.run(
        ["unshare", "-Urn", "true"], user=ordinary_user, check=False, timeout=30
    )
    if allowed.returncode != 0:
        pytest.skip("this kernel lets no ordinary user create namespaces")
    entry = pwd.getpwnam(ordinary_user)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(
            Path(gangstart.__file__).parent,
            Path(folder, "gangstart"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True, timeout=30)

        def as_user(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [python, "-m", "gangstart", "cluster", *arguments],
                user=entry.pw_uid,
                group=entry.pw_gid,
                extra_groups=[],
                cwd=entry.pw_dir,
                env={
                    "HOME": entry.pw_dir,
                    "PATH": "/usr/bin:/bin",
                    "PYTHONPATH": folder,
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

        shown = as_user("up", "--no-plugin")
        assert (shown.returncode, shown.stderr) == (0, "")
        ran = as_user(
            "run", "--", "srun", "-N4", "sh", "-c", "echo $(id -un) $(hostname)"
        )
        assert sorted(ran.stdout.splitlines()) == [
            f"{ordinary_user} n{i}" for i in (1, 2, 3, 4)
        ]
        assert as_user("node", "kill", "n2").returncode == 0
        assert as_user("node", "start", "n2").returncode == 0
        assert as_user("link", "down", "n3").returncode == 0
        assert as_user("link", "up", "n3").returncode == 0
        other = as_user("run", "--user", "root", "--", "id")
        assert "only root may run a command as root" in other.stderr
        closed = as_user(
            "run", "--", "sh", "-c", "mkdir -p ~/../x; mkdir /tmp/a; chmod 0 /tmp/a"
        )
        assert closed.returncode == 0
        assert as_user("down").stdout == "cluster default: down\n"
    left = f"{entry.pw_dir}/.local/state/gangstart"
    assert traces(left) == []
    # The dead ones, whom this machine's init has yet to bury, do not count.
    alive = [p for p in process.pids() if process.start_time(p) is not None]
    assert [p for p in alive if owner(p) == entry.pw_uid] == []


def owner(pid: int) -> int | None:
    """User id of a process."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except FileNotFoundError:
        return None
