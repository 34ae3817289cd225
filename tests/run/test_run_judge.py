"""Pure parts of gangstart run: who started us, is the world right, what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from gangstart.errors import GangstartError
from gangstart.run.inside import recognise
from gangstart.run.judge import Proc, judge, mismatch, singleton
from gangstart.run.launched import Launched, launched
from gangstart.run.marks import Marks, missing
from gangstart.run.plan import Layout, Meeting, clean, plan

SRUN = {
    "SLURM_JOB_ID": "7877",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_GTIDS": "2,3",
    "SLURMD_NODENAME": "n007",
}
STARTED = {
    **SRUN,
    "GANGSTART_STEP": "7877.0",
    "GANGSTART_MASTER": "10.0.0.1 41873",
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "41873",
}


def procs(*rows: tuple[int | None, int | None, int, int]) -> list[Proc]:
    return [Proc(*row, "n001") for row in rows]


def test_srun_open_mpi_and_mpich_are_told_apart() -> None:
    open_mpi = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6"}
    mpich = {"PMI_RANK": "2", "PMI_SIZE": "4", "PMI_FD": "9", "MPI_LOCALRANKID": "2"}

    assert launched(SRUN).by == "srun"
    assert launched({**SRUN, **open_mpi}).by == "Open MPI's mpirun"
    assert launched({**SRUN, **open_mpi}).rank == 5
    assert launched({**SRUN, **mpich}).by == "MPICH's mpiexec"
    assert launched({**SRUN, **mpich}).pmi == "PMI"
    assert launched({}).by is None


def test_slurms_own_pmi_is_no_mpiexec() -> None:
    assert launched({**SRUN, "PMI_RANK": "3", "PMI_FD": "5"}).by == "srun"


def test_the_batch_script_is_no_task_of_a_step() -> None:
    batch = {**SRUN, "SLURM_STEP_ID": "4294967291"}

    assert launched(batch).by is None
    assert launched(batch).job == 7877


def test_srun_tells_the_step_and_how_many_tasks_are_here() -> None:
    told = launched({**SRUN, "SLURM_RESTART_COUNT": "2"})

    assert told.step == (7877, 0, 2)
    assert (told.node, told.local_size) == ("n007", 2)


def test_a_world_of_one_is_fine_without_a_launcher() -> None:
    assert singleton(1, None, None, "no PMI") == ""
    assert singleton(1, 1, "srun", "no PMI") == ""


def test_a_rank_that_is_alone_among_many_knows_it_by_itself() -> None:
    said = singleton(1, 4, "srun", "no PMI")

    assert "--mpi=pmix" in said
    assert "4 tasks" in said


@pytest.mark.parametrize(
    ("library", "pmi", "said"),
    [
        ("Open MPI 4.1.4", "PMI", "srun --mpi=pmix;"),
        ("MPICH 4.0.2", "PMIx", "srun --mpi=pmi2;"),
        ("MPICH 4.0.2", "PMI", "this build of it cannot talk to Slurm"),
        ("Unheard-of MPI 1", "PMI", "srun --mpi=pmix (Open MPI)"),
    ],
)
def test_the_advice_is_the_one_for_the_library(
    library: str, pmi: str, said: str
) -> None:
    assert said in singleton(1, 4, "srun", pmi, library)


def test_a_library_is_told_apart_from_what_its_launcher_offers() -> None:
    assert "wants PMI and was offered PMIx" in mismatch("srun", "PMIx", "MPICH 5.0.2")
    assert mismatch("srun", "PMI", "MPICH 5.0.2") == ""
    assert mismatch("srun", "PMI", "Unheard-of MPI 1") == ""
    assert "Open MPI's mpirun" in mismatch("MPICH's mpiexec", "PMI", "Open MPI 5.0.1")


def test_mpiexec_of_mpich_passes_its_own_nodes_variables_on() -> None:
    mpich = {"PMI_RANK": "2", "PMI_SIZE": "4", "PMI_FD": "9", "MPI_LOCALRANKID": "2"}

    assert launched({**SRUN, **mpich}).node != "n007"
    assert launched({**SRUN, "OMPI_COMM_WORLD_RANK": "2"}).node == "n007"


def test_a_world_of_another_size_is_refused() -> None:
    found = judge(procs((0, 4, 0, 2), (1, 4, 1, 2)))

    assert found.code == "WORLD_MISMATCH"
    assert "started 4 tasks, but MPI's world has 2" in found.message


def test_a_rank_that_two_processes_have_is_refused() -> None:
    found = judge(procs((0, 2, 0, 2), (0, 2, 1, 2)))

    assert found.code == "WORLD_MISMATCH"
    assert "rank 0 twice" in found.message


def test_another_order_is_a_warning_and_the_launchers_is_used() -> None:
    found = judge(procs((1, 2, 0, 2), (0, 2, 1, 2)))

    assert (found.code, found.warnings) == ("", ("RANK_ORDER",))
    assert found.ranks == (1, 0)


def test_without_a_launchers_word_mpis_ranks_are_used() -> None:
    assert judge(procs((None, None, 0, 2), (None, None, 1, 2)), None).ranks == (0, 1)


def test_a_program_of_gangstart_run_is_recognised_and_an_mpirun_in_it_is_not() -> None:
    env = {"GANGSTART_RUN": "-", "GANGSTART_STEP": "1796099243.0", "RANK": "3"}
    daemons = {**SRUN, **env, "GANGSTART_RUN": "7877.0"}  # mpirun in a job uses srun
    openmpi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}

    assert recognise(env) is not None
    assert recognise(daemons) is not None
    assert recognise({**env, **openmpi}) is None
    assert recognise({**daemons, "SLURM_STEP_ID": "1"}) is None


def test_a_started_step_is_recognised_and_not_done_twice() -> None:
    found = recognise(STARTED)

    assert found is not None
    assert found.warnings == ()


def test_another_steps_variables_are_no_start_of_this_one() -> None:
    assert recognise({**STARTED, "SLURM_STEP_ID": "1"}) is None
    assert recognise({}) is None


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_RANK"])
def test_a_rank_that_task_prolog_has_changed_is_refused(name: str) -> None:
    with pytest.raises(GangstartError, match=f"{name}=77.*TaskProlog") as refused:
        recognise({**STARTED, name: "77"})

    assert refused.value.exit_code == 78


def test_an_address_that_task_prolog_has_changed_is_a_warning() -> None:
    found = recognise({**STARTED, "MASTER_ADDR": "n001"})

    assert found is not None
    (sentence,) = found.warnings
    assert "MASTER_ADDR=n001 is not 10.0.0.1" in sentence


def test_the_users_own_address_was_never_the_plugins() -> None:
    found = recognise({**STARTED, "GANGSTART_MASTER": "- 41873", "MASTER_ADDR": "n001"})

    assert found is not None
    assert found.warnings == ()


def test_a_rank_gets_what_the_plugin_would_give_it() -> None:
    layout = Layout((7, 1), {"n001": [0, 1], "n002": [2]})
    made = plan({"SLURM_PROCID": "99"}, layout, 2, Meeting("10.0.0.1", 41873, 5.5))

    assert (made.outcome, made.warnings) == ("inject", ("UNEVEN_TASKS",))
    assert dict(made.set) == {
        "RANK": "2",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": "1",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "41873",
        "GANGSTART_STEP": "7.1",
        "GANGSTART_T0": "5.500000",
        "GANGSTART_MASTER": "10.0.0.1 41873",
    }


def test_gpus_that_a_rank_cannot_index_are_a_warning() -> None:
    layout = Layout((7, 1), {"n001": [0, 1]}, visible={0: ["GPU-a"], 1: ["GPU-b"]})

    assert "GPU_BINDING" in plan({}, layout, 1, Meeting()).warnings


def test_the_program_gets_no_variable_of_an_mpi_start_that_is_over() -> None:
    mpi = {"PMI_RANK": "0", "PMIX_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    own = {"PATH": "/bin", "MPLCONFIGDIR": "/x", "PMODE": "1"}

    assert clean({**mpi, **own}) == own


def told(size: int, local: int) -> Launched:
    return Launched("srun", 0, size, 0, local, "x", "PMIx", "n001", None, None)


def test_who_has_not_come_is_named_where_all_are_on_one_node() -> None:
    assert missing(told(4, 4), {0: 0, 1: 1, 3: 3}).endswith("rank 2 never did")


def test_who_has_not_come_is_counted_where_others_are_elsewhere() -> None:
    blocks = missing(told(8, 4), {4: 0, 5: 1, 7: 3})
    assert blocks.endswith(
        "on n001 ranks 4-5,7 called it; 1 of its 4 tasks never did: local rank 2 "
        "(rank 6, if ranks were placed in blocks)"
    )
    cyclic = missing(told(8, 4), {1: 0, 3: 1, 7: 3})
    assert cyclic.endswith("1 of its 4 tasks never did: local rank 2")
    unknown = missing(told(8, 4), {1: None, 3: None})
    assert unknown.endswith("2 of its 4 tasks never did")
    assert "all 4 tasks of n001 are in it" in missing(
        told(8, 4), {0: 0, 1: 1, 2: 2, 3: 3}
    )


def test_srun_lists_the_ranks_of_a_node_whatever_their_distribution() -> None:
    env = {**SRUN, "SLURM_GTIDS": "1,3,5,7", "SLURM_PROCID": "3"}

    assert missing(launched(env), {1: 0, 3: 1, 7: 3}).endswith(
        "on n007 ranks 1,3,7 called it; rank 5 never did"
    )


def test_marks_are_shared_by_the_tasks_of_one_start(tmp_path: Path) -> None:
    one, two, other = (Marks(name, str(tmp_path)) for name in ("a", "a", "b"))
    one.add(3, 1)
    two.add(1, None)

    assert (one.ranks(), other.ranks()) == ({1: None, 3: 1}, {})
    assert (one.elect(), two.elect(), other.elect()) == (True, False, True)
    for mark in (one, two, other):
        mark.close()
    assert list(tmp_path.iterdir()) == []


def test_marks_follow_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("")
    place = Path(Marks("a", str(tmp_path)).path)
    place.unlink()
    place.symlink_to(victim)
    marks = Marks("a", str(tmp_path))
    marks.add(1, 0)

    assert victim.read_text() == ""
    assert marks.ranks() == {}
