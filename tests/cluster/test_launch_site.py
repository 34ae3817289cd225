"""How a site has set Slurm up: a start is the same with each of these."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.launching import (
    FLAG,
    SHORT,
    check_plain,
    check_refused,
    check_started,
    check_world,
    need,
    need_plugin,
    put_before_ours,
    rows_of,
    version,
    who,
)
from cluster.scripts import FIRST_JOB
from cluster.trouble import NEVER, sabotage
from gangstart.cluster import Spec
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.gang import Gang
    from gangstart.cluster import Cluster

    Maker = Callable[[Spec], Gang]

pytestmark = pytest.mark.cluster

FOUR = ("-N4", "-n4")


def check_all(gang: Gang, *options: str) -> None:
    """A start, a step without the flag, a refusal: each as everywhere."""
    launch = ["srun", *FOUR, *options]
    check_started(gang, gang.run([*launch, FLAG, who(gang)]), 4)
    gang.quiet()
    check_plain(gang.run([*launch, who(gang)]), 4)
    gang.quiet()
    check_refused(gang, 1, [*launch, SHORT, *gang.trace()])


def etc(folder: Path, name: str, *lines: str) -> str:
    """Make a file that is to lie beside slurm.conf."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o600 if name.endswith(".key") else 0o644)
    return str(path)


def test_nodes_without_a_slurm_conf(gang_on: Maker, saboteur: str) -> None:
    gang = gang_on(
        Spec(
            slurm_lines=("SlurmctldParameters=enable_configless",),
            slurmd_args=("--conf-server", "head:6817"),
        )
    )
    # What slurmctld handed out is what the nodes read; srun reads the files.
    cache = "node/n1/slurmd/conf-cache/plugstack.conf"
    path = gang.cluster.directory / "etc" / "plugstack.conf"
    assert (gang.cluster.directory / cache).read_text() == path.read_text()
    put_before_ours(gang, saboteur)
    assert gang.run(["scontrol", "reconfigure"]).code == 0
    gang.quiet()
    check_all(gang)


def test_srun_without_a_slurm_conf(gang_on: Maker) -> None:
    gang = gang_on(
        Spec(
            slurm_lines=("SlurmctldParameters=enable_configless",),
            slurmd_args=("--conf-server", "head:6817"),
        )
    )
    conf = gang.cluster.directory / "node" / "n1" / "slurmd" / "conf-cache"
    given = gang.folder / "conf"
    given.mkdir()
    for path in conf.iterdir():
        (given / path.name).write_text(path.read_text())
    env = {"SLURM_CONF": str(given / "slurm.conf")}
    check_started(gang, gang.srun(*FOUR, FLAG, who(gang), env=env), 4)
    gang.clean(10)


def test_cpu_binding(gang_on: Maker, plugin_cluster: Cluster, saboteur: str) -> None:
    need_plugin(plugin_cluster, "task_affinity")
    gang = gang_on(Spec(cpus=1, slurm_lines=("TaskPlugin=task/affinity",)))
    put_before_ours(gang, saboteur)
    check_all(gang, "--cpu-bind=cores")
    shown = ("grep", "Cpus_allowed_list", "/proc/self/status")
    ran = gang.srun(*FOUR, FLAG, "--cpu-bind=map_cpu:0", *shown)
    assert ran.code == 0, ran.err
    assert {row[1] for row in ran.rows} == {"0"}
    gang.clean(10)


@pytest.fixture
def freezer() -> Iterator[None]:
    """Of cgroup v1 Slurm leaves empty folders behind, on the machine itself."""
    before = set(Path("/sys/fs/cgroup/freezer").glob("slurm*"))
    yield
    for top in set(Path("/sys/fs/cgroup/freezer").glob("slurm*")) - before:
        for folder in sorted(top.glob("**/"), reverse=True):
            folder.rmdir()


@pytest.mark.usefixtures("freezer")
@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_processes_that_are_tracked_by_cgroups(
    gang_on: Maker, plugin_cluster: Cluster, saboteur: str, tmp_path: Path, kind: str
) -> None:
    lines: tuple[str, ...] = ("IgnoreSystemd=yes",)
    if kind == "v1" and version(plugin_cluster) < (23, 11):
        lines = ("CgroupAutomount=yes", "CgroupMountpoint=/run/slurmd")
    elif kind == "v1":
        lines = ("CgroupMountpoint=/sys/fs/cgroup",)
    conf = etc(tmp_path, "cgroup.conf", f"CgroupPlugin=cgroup/{kind}", *lines)
    # Of all clusters on this machine no other job may have the same number.
    own = (f"FirstJobId={FIRST_JOB}", "ProctrackType=proctrack/cgroup")
    try:
        gang = gang_on(Spec(slurm_lines=own, etc_files=(conf,)))
    except GangstartError as error:
        pytest.skip(f"no cgroup {kind} for Slurm here: {error.message}")
    put_before_ours(gang, saboteur)
    check_all(gang)
    ran = gang.srun("-n1", FLAG, "cat", "/proc/self/cgroup")
    assert f"job_{FIRST_JOB}" in ran.out or "/job_" in ran.out
    gang.clean(20)


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """Namespaces that are made on one CPU have ascending numbers.

    Slurm binds a job's mount namespace into slurmd's, which Linux only allows for a
    newer one, and newer kernels number them by CPU.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


KEYS = ("AutoBasePath=true", "BasePath=/run/slurmd/containers")
YAML = ("auto_basepath: true", "base_path: /run/slurmd/containers")
#: Slurm's plugin -> line of slurm.conf, and the file that it reads.
CONTAINERS = {
    "job_container_tmpfs": (
        "JobContainerType=job_container/tmpfs",
        ("job_container.conf", *KEYS),
    ),
    "namespace_tmpfs": ("NamespaceType=namespace/tmpfs", ("job_container.conf", *KEYS)),
    "namespace_linux": ("NamespaceType=namespace/linux", ("namespace.yaml", *YAML)),
}


@pytest.mark.usefixtures("one_cpu")
@pytest.mark.parametrize("spank", ["", "contain_spank"], ids=["plain", "contained"])
@pytest.mark.parametrize("plugin", CONTAINERS)
def test_jobs_with_a_tmp_of_their_own(
    gang_on: Maker,
    plugin_cluster: Cluster,
    saboteur: str,
    tmp_path: Path,
    plugin: str,
    spank: str,
) -> None:
    need_plugin(plugin_cluster, plugin)
    if spank and version(plugin_cluster) < (24, 5):
        pytest.skip("contain_spank is of Slurm 24.05 and later")
    line, file = CONTAINERS[plugin]
    conf = etc(tmp_path, *file)
    parameters = ",".join(filter(None, ["config_overrides", spank]))
    own = (line, "PrologFlags=Contain", f"SlurmdParameters={parameters}")
    gang = gang_on(Spec(slurm_lines=own, etc_files=(conf,)))
    put_before_ours(gang, saboteur)
    check_all(gang)
    ran = gang.srun(*FOUR, FLAG, "sh", "-c", "ls -A /tmp; : >/tmp/mine; echo $RANK")
    assert (ran.code, ran.rows) == (0, [[str(rank)] for rank in range(4)])
    gang.clean(20)


def test_credentials_of_slurms_own(
    gang_on: Maker, plugin_cluster: Cluster, saboteur: str, tmp_path: Path
) -> None:
    need_plugin(plugin_cluster, "auth_slurm")
    key = etc(tmp_path, "slurm.key", os.urandom(48).hex())
    own = ("AuthType=auth/slurm", "CredType=auth/slurm", "AuthInfo=use_client_ids")
    gang = gang_on(Spec(slurm_lines=own, etc_files=(key,)))
    put_before_ours(gang, saboteur)
    check_all(gang)


def test_a_site_where_gpus_alone_ask_for_a_start(
    gang_on: Maker, tmp_path: Path
) -> None:
    # A device that every machine has stands for a GPU: nobody opens it here.
    conf = etc(tmp_path, "gres.conf", "NodeName=n[1-4] Name=gpu File=/dev/null")
    nodes = "NodeName=n[1-4] CPUs=8 RealMemory=500 Gres=gpu:1 State=UNKNOWN"
    gang = gang_on(
        Spec(
            slurm_lines=("GresTypes=gpu", nodes),
            plugin_args=("auto=gpu", "health=off"),
            etc_files=(conf,),
        )
    )
    program = who(gang)
    check_plain(gang.srun(*FOUR, program), 4)
    gang.quiet()
    for asks in (["--gpus-per-node=1"], ["--gres=gpu:1"], ["-G4"]):
        check_started(gang, gang.srun(*FOUR, *asks, program), 4)
        gang.quiet()
    check_plain(gang.srun(*FOUR, "-G4", "--gang-start=off", program), 4)
    gang.quiet()
    inside = ["salloc", "-Q", *FOUR, "--gpus-per-node=1", "srun", str(program)]
    check_started(gang, gang.run(inside), 4)
    out, err = gang.batch(*FOUR, "--gpus-per-task=1", script=f"srun {program}")
    assert [row[4] for row in rows_of(out)] == list("0123"), err
    assert err.count("gang-start: 4/4 tasks") == 1
    gang.clean(10)


def test_a_step_that_nobody_waits_for_is_decided_by_its_first_node(
    gang_on: Maker, plugin_cluster: Cluster, saboteur: str
) -> None:
    need(plugin_cluster, "--async")
    gang = gang_on(Spec(slurm_lines=("PrologFlags=Contain",)))
    put_before_ours(gang, saboteur)
    files = ("--output=o.%t", "--error=e.%t")
    step = ["srun", *FOUR, "--async", *files, FLAG, str(who(gang))]
    # The allocation has to stay until its steps are through: nobody waits for them.
    wait = "swait"
    whole = ["salloc", "-Q", *FOUR, "--stepmgr", "sh", "-c"]
    ran = gang.run([*whole, f"{shlex.join(step)} && {wait}"])
    assert ran.code == 0, ran.err
    texts = [path.read_text() for path in sorted(gang.folder.glob("o.*"))]
    check_world(gang, "".join(texts), 4)
    told = "".join(path.read_text() for path in sorted(gang.folder.glob("e.*")))
    assert told.splitlines()[0].startswith("gang-start: 4/4 tasks on 4/4 nodes in ")
    assert told.splitlines()[1] == "gang-start: decided by n1: rendezvous=node"
    gang.quiet()
    step = ["srun", *FOUR, "--async", *files, SHORT, *map(str, gang.trace())]
    held = sabotage("task_init", "1", f"hold={NEVER}")
    ran = gang.run([*whole, f"{shlex.join(step)} && {wait}"], env=held)
    told = "".join(path.read_text() for path in sorted(gang.folder.glob("e.*")))
    assert "refused after 1 s: 1 of 4 nodes is not ready" in told
    assert "rank 1 not started" in told
    assert gang.started() == []
    gang.clean(20)
