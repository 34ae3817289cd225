"""How a site has set Slurm up: a start is the same with each of these."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.launching import (
    FLAG,
    SHORT,
    check_plain,
    check_refused,
    check_started,
    need_plugin,
    rows_of,
    version,
    who,
)
from cluster.scripts import FIRST_JOB
from gangstart.cluster import Spec
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.gang import Gang
    from gangstart.cluster import Cluster

    Maker = Callable[[Spec], Gang]

pytestmark = pytest.mark.cluster

FOUR = ("-N4", "-n4")


def plugstack(gang: Gang, first: str) -> None:
    """Put a neighbour before the plugin, for good."""
    path = gang.cluster.directory / "etc" / "plugstack.conf"
    path.write_text(f"{first}\n{path.read_text()}")


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
    plugstack(gang, saboteur)
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
    plugstack(gang, saboteur)
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


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_processes_that_are_tracked_by_cgroups(
    gang_on: Maker, saboteur: str, tmp_path: Path, freezer: None, kind: str
) -> None:
    del freezer
    lines = {
        "v1": ("CgroupAutomount=yes", "CgroupMountpoint=/run/slurmd"),
        "v2": ("IgnoreSystemd=yes",),
    }
    conf = etc(tmp_path, "cgroup.conf", f"CgroupPlugin=cgroup/{kind}", *lines[kind])
    # Of all clusters on this machine no other job may have the same number.
    own = (f"FirstJobId={FIRST_JOB}", "ProctrackType=proctrack/cgroup")
    try:
        gang = gang_on(Spec(slurm_lines=own, etc_files=(conf,)))
    except GangstartError as error:
        pytest.skip(f"no cgroup {kind} for Slurm here: {error.message}")
    plugstack(gang, saboteur)
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


CONTAINERS = {
    "job_container_tmpfs": ("JobContainerType=job_container/tmpfs", "job_container"),
    "namespace_tmpfs": ("NamespaceType=namespace/tmpfs", "namespace"),
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
    line, name = CONTAINERS[plugin]
    conf = etc(
        tmp_path,
        f"{name}.conf",
        "AutoBasePath=true",
        "BasePath=/run/slurmd/containers",
    )
    parameters = ",".join(filter(None, ["config_overrides", spank]))
    own = (line, "PrologFlags=Contain", f"SlurmdParameters={parameters}")
    gang = gang_on(Spec(slurm_lines=own, etc_files=(conf,)))
    plugstack(gang, saboteur)
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
    plugstack(gang, saboteur)
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
    inside = ["salloc", "-Q", *FOUR, "--gpus-per-node=1", "srun", program]
    check_started(gang, gang.run(inside), 4)
    out, err = gang.batch(*FOUR, "--gpus-per-task=1", script=f"srun {program}")
    assert [row[4] for row in rows_of(out)] == list("0123"), err
    assert err.count("gang-start: 4/4 tasks") == 1
    gang.clean(10)
