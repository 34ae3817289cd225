"""gangstart run on a real Slurm: with srun --mpi=pmi2, alone, inside a gang step."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from cluster.launching import need_plugin
from run.mpitools import GANGSTART, MPIS, Mpi, why_not

if TYPE_CHECKING:
    from cluster.gang import Gang, Ran

pytestmark = pytest.mark.cluster

TWO_EACH = ("-N4", "--ntasks-per-node=2")
RUN = (GANGSTART, "run", "timeout=20")
WHO = "echo $RANK $WORLD_SIZE $NODE_RANK $MASTER_ADDR"
#: What differs between two starts, and what the other transport cannot know.
OWN = {
    "decided_at", "elapsed_s", "first_connected_s", "waited_s", "message", "last",
    "port", "clock_offset_s", "connected_s", "master_rtt_s", "arrived_s", "skew_s",
    "job_id", "step_id", "name", "submit_host", "slurm", "took_s",
}  # fmt: skip

reason = cache(why_not)


def usable(gang: Gang, name: str) -> Mpi:
    """This MPI; skips where it cannot be used, or is not what the nodes see."""
    if reason(name):
        pytest.skip(reason(name))
    made = Mpi(name, gang.folder)
    command = made.launcher()[0]
    there = gang.cluster.run(["sh", "-c", 'command -v "$0"', command])
    if there.returncode != 0:
        pytest.skip(f"there is no {command} where this cluster's Slurm is")
    return made


@pytest.fixture
def mpich(gang: Gang) -> dict[str, str]:
    """Environment of MPICH, which speaks Slurm's pmi2; Open MPI's wheel does not."""
    # Its exchange of UCX's addresses by pmi2 sends what lies behind them on 24.11, and
    # no program comes through MPI_Init, with or without us.
    return {**usable(gang, "mpich").variables(), "MPIR_CVAR_CH4_NETMOD": "ofi"}


def shape(report: Any) -> Any:  # noqa: ANN401 - any JSON
    """A report without what belongs to one start only."""
    if isinstance(report, dict):
        return {k: shape(v) for k, v in report.items() if k not in OWN}
    return [shape(one) for one in report] if isinstance(report, list) else report


def test_srun_with_pmi2_gives_every_rank_its_environment(
    gang: Gang, mpich: dict[str, str]
) -> None:
    ran = gang.srun(*TWO_EACH, "--mpi=pmi2", *RUN, "--", "sh", "-c", WHO, env=mpich)

    address = gang.address("n1")
    assert ran.code == 0, ran.err
    assert sorted(ran.out.splitlines()) == [
        f"{rank} 8 {rank // 2} {address}" for rank in range(8)
    ]
    assert "8/8 tasks on 4/4 nodes" in ran.told[0]


def test_the_report_is_the_plugins_but_for_the_transport(
    gang: Gang, mpich: dict[str, str]
) -> None:
    assert gang.srun(*TWO_EACH, "--gang-start=20", "true").code == 0
    ran = gang.srun(*TWO_EACH, "--mpi=pmi2", *RUN, "--", "true", env=mpich)
    assert ran.code == 0, ran.err
    plugin, ours = gang.copies()

    assert shape(ours) == shape(plugin)


def test_the_same_environment_as_from_the_plugin(
    gang: Gang, mpich: dict[str, str]
) -> None:
    names = "RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK"
    ask = f"env | grep -E '^({names}|MASTER_ADDR)=' | sort | tr '\\n' ' '; echo"
    plugin = gang.srun(*TWO_EACH, "--gang-start=20", "sh", "-c", ask)
    ours = gang.srun(*TWO_EACH, "--mpi=pmi2", *RUN, "--", "sh", "-c", ask, env=mpich)

    assert (plugin.code, ours.code) == (0, 0), plugin.err + ours.err
    assert sorted(ours.out.splitlines()) == sorted(plugin.out.splitlines())


def test_ranks_without_pmi_are_each_alone_and_told_so(
    gang: Gang, mpich: dict[str, str]
) -> None:
    ran = gang.srun(*TWO_EACH, "--mpi=none", *RUN, "--", "echo", "ran", env=mpich)

    assert (ran.code, ran.out) == (78, "")
    (line,) = [one for one in ran.told if "every rank is alone" in one]
    assert "srun --mpi=pmi2" in line
    assert "srun started 8 tasks" in line


def test_a_failing_rank_ends_the_others_on_all_nodes(
    gang: Gang, mpich: dict[str, str]
) -> None:
    program = "if [ $RANK = 5 ]; then exit 9; fi; exec sleep 300"
    words = (*RUN, "--grace", "5", "--", "sh", "-c", program)
    ran = gang.srun(*TWO_EACH, "--mpi=pmi2", *words, env=mpich)

    assert ran.code == 9
    assert "rank 5 on n3 failed first: exit code 9" in ran.err
    assert gang.pids("sleep") == {}


def test_in_a_gang_step_nothing_is_done_twice(gang: Gang) -> None:
    ran = gang.srun(*TWO_EACH, "--gang-start=20", *RUN, "--", "sh", "-c", WHO)

    assert ran.code == 0, ran.err
    assert len(ran.out.splitlines()) == 8
    assert len(ran.told) == 1
    assert len(gang.copies()) == 1


def test_in_a_gang_step_a_changed_rank_is_refused(gang: Gang) -> None:
    script = f"RANK=7 exec {' '.join(RUN)} -- echo ran"
    ran = gang.srun("-N1", "-n1", "--gang-start=20", "sh", "-c", script)

    assert (ran.code, ran.out) == (78, "")
    assert "RANK=7, but SLURM_PROCID=0" in ran.err


def test_the_library_meets_across_nodes_without_the_plugin(
    gang: Gang, mpich: dict[str, str]
) -> None:
    program = (
        "import gangstart as g, os\n"
        "numbers = [g.barrier(30).number for _ in range(3)]\n"
        "step = g.current()\n"
        "os.write(1, f'{step.rank} {step.started} {step.peers[7]} "
        "{numbers[-1]}\\n'.encode())\n"
    )
    command = (*RUN, "--", sys.executable, "-c", program)
    ran = gang.srun(*TWO_EACH, "--mpi=pmi2", *command, env=mpich)

    assert ran.code == 0, ran.err
    assert sorted(ran.out.splitlines()) == [f"{rank} run n4 3" for rank in range(8)]


@pytest.fixture
def open_mpi(gang: Gang) -> dict[str, str]:
    """Environment of Debian's Open MPI, which speaks PMIx."""
    need_plugin(gang.cluster, "mpi_pmix")
    return usable(gang, "debian-openmpi").variables()


def test_with_pmix_the_report_is_the_plugins_too(
    gang: Gang, open_mpi: dict[str, str]
) -> None:
    assert gang.srun(*TWO_EACH, "--gang-start=20", "true").code == 0
    ran = gang.srun(*TWO_EACH, "--mpi=pmix", *RUN, "--", "true", env=open_mpi)
    assert ran.code == 0, ran.err
    plugin, ours = gang.copies()

    assert shape(ours) == shape(plugin)
    assert ours["versions"]["slurm"] == plugin["versions"]["slurm"]


def test_open_mpi_under_pmi2_is_told_to_use_pmix(
    gang: Gang, open_mpi: dict[str, str]
) -> None:
    ran = gang.srun(*TWO_EACH, "--mpi=pmi2", *RUN, "--", "echo", "ran", env=open_mpi)

    assert (ran.code, ran.out) == (78, "")
    assert "start it with srun --mpi=pmix" in ran.err


@pytest.mark.parametrize("name", ["mpich", "debian-mpich"])
def test_mpich_under_pmix_is_told_to_use_pmi2(gang: Gang, name: str) -> None:
    need_plugin(gang.cluster, "mpi_pmix")
    env = usable(gang, name).variables()
    ran = gang.srun(*TWO_EACH, "--mpi=pmix", *RUN, "--", "echo", "ran", env=env)

    assert (ran.code, ran.out) == (78, ""), ran.err
    assert "start it with srun --mpi=pmi2" in ran.err


def by_mpirun(gang: Gang, name: str, program: str, spec: str = "timeout=20") -> Ran:
    """Run a shell script by this MPI's launcher over all nodes of a job."""
    mpi = usable(gang, name)
    launcher = [word for word in mpi.launcher() if word != "--oversubscribe"]
    script = program.replace("START", f"exec {GANGSTART} run {spec} -- ")
    script = script.replace("ITS_RANK", mpi.rank_name)
    home = {"HOME": str(gang.folder)}  # Open MPI 5 starts nothing without
    command = ["salloc", *TWO_EACH, *launcher, "sh", "-c", script]
    return gang.run(command, mpi.variables() | home)


@pytest.mark.parametrize("name", MPIS)
def test_mpirun_starts_on_all_nodes_of_a_job_without_ssh(gang: Gang, name: str) -> None:
    ran = by_mpirun(gang, name, f"START sh -c '{WHO}'")

    assert ran.code == 0, ran.err
    assert "8/8 tasks on 4/4 nodes" in ran.err
    assert len(ran.out.splitlines()) == 8


@pytest.mark.parametrize("name", MPIS)
def test_a_rank_that_never_comes_is_named_with_its_node_by_mpirun_too(
    gang: Gang, name: str
) -> None:
    late = 'if [ "$ITS_RANK" = 5 ]; then exec sleep 300; fi; START echo ran'
    ran = by_mpirun(gang, name, late, "timeout=5")

    assert ran.code == 75, ran.err
    assert "ran" not in ran.out.split()
    assert "on n3 rank 4 called it; 1 of its 2 tasks never did" in ran.err
    assert "local rank 1 (rank 5, if ranks were placed in blocks)" in ran.err
    gang.quiet()


def test_a_rank_that_never_comes_is_named_by_srun_whatever_the_distribution(
    gang: Gang, mpich: dict[str, str]
) -> None:
    late = 'if [ "$SLURM_PROCID" = 6 ]; then exec sleep 300; fi; '
    start = f"exec {GANGSTART} run timeout=5 -- echo ran"
    way = ("--distribution=cyclic", "--mpi=pmi2", "--kill-on-bad-exit")
    ran = gang.srun(*TWO_EACH, *way, "sh", "-c", late + start, env=mpich)

    assert ran.out == ""
    assert ran.code != 0  # srun's: the highest, of those that it has killed as well
    assert "on n3 rank 2 called it; rank 6 never did" in ran.err
    gang.quiet()


@pytest.mark.parametrize("name", MPIS)
def test_a_killed_rank_ends_those_on_other_nodes_and_is_named(
    gang: Gang, name: str
) -> None:
    dies = "if [ $RANK = 5 ]; then kill -9 $$; fi; exec sleep 300"
    ran = by_mpirun(gang, name, f"START sh -c '{dies}'")

    assert ran.code == 137, ran.err
    assert "rank 5 on n3" in ran.err
    gang.quiet()
