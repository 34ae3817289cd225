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
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import slurmroot
from clustertool import (
    COMMAND,
    EMPTY_PLUGIN,
    PRIVATE,
    mounts,
    named_namespaces,
    needs_root,
    place,
    tool,
    traces,
    until,
)
from gangstart.cluster import Cluster, Spec, process

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.cluster


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
        [*COMMAND, "up", "--name", name, *slurmroot.options()],
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
        headers = slurmroot.include(Path(folder))
        command = [compiler, "-shared", "-fPIC", f"-I{headers}", "-o", str(built)]
        command.append(str(source))
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
