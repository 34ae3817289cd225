"""current(): who this process is, from whatever started it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import gangstart
import pytest
from gangstart.step import described

if TYPE_CHECKING:
    from pathlib import Path

SLURM = {
    "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "3", "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1", "SLURM_NODEID": "2", "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "4", "SLURM_STEP_NODELIST": "n[1-4]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x4)", "SLURM_GTIDS": "4,5",
    "SLURMD_NODENAME": "n3", "SLURM_RESTART_COUNT": "1",
}  # fmt: skip
TORCH = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "NODE_RANK": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500",
}  # fmt: skip
GANG = TORCH | {
    "GANGSTART_STEP": "77.3",
    "GANGSTART_REPORT": "/run/gangstart/77.3/sys/start.json",
    "GANGSTART_MASTER": "10.0.0.1 29500",
}


def test_a_number_of_thousands_of_digits_is_a_sentence() -> None:
    with pytest.raises(gangstart.GangstartError, match="is no number"):
        described({**TORCH, "RANK": "9" * 5000})


def test_alone_it_is_a_world_of_one() -> None:
    step = described({})
    assert (step.started, step.rank, step.world_size) == ("single", 0, 1)
    assert (step.node_rank, step.node_count, step.spool) == (0, 1, None)
    assert step.peers == {0: step.node}


def test_a_task_of_the_plugin_knows_all() -> None:
    step = described(SLURM | GANG)
    assert step.started == "plugin"
    assert (step.job_id, step.step_id, step.restart) == (77, 3, 1)
    assert (step.rank, step.world_size) == (5, 8)
    assert (step.local_rank, step.local_world_size) == (1, 2)
    assert (step.node, step.node_rank, step.node_count) == ("n3", 2, 4)
    assert (step.master_addr, step.master_port) == ("10.0.0.1", 29500)
    assert str(step.spool) == "/run/gangstart/77.3"
    assert step.meet_addr == "10.0.0.1"
    assert step.peers == {rank: f"n{rank // 2 + 1}" for rank in range(8)}


def test_a_plain_slurm_step_has_ranks_and_peers_and_no_spool() -> None:
    step = described(SLURM)
    assert (step.started, step.rank, step.world_size) == ("slurm", 5, 8)
    assert (step.master_addr, step.spool, step.meet_addr) == (None, None, None)
    assert step.peers[7] == "n4"


def test_below_gangstart_run_the_folder_is_its_own() -> None:
    told = {"GANGSTART_RUN": "-", "GANGSTART_SPOOL": "/run/g/1.0-ab"}
    step = described(GANG | told | {"GANGSTART_STEP": "1790000000.0"})
    assert (step.started, str(step.spool)) == ("run", "/run/g/1.0-ab")
    assert (step.job_id, step.rank) == (1790000000, 5)


def test_what_an_outer_step_left_does_not_count() -> None:
    inner = SLURM | GANG | {"SLURM_STEP_ID": "4", "SLURM_PROCID": "0"}
    step = described(inner | {"GANGSTART_RUN": "77.3", "GANGSTART_SPOOL": "/x"})
    assert (step.started, step.rank, step.spool) == ("slurm", 0, None)


def test_torchs_variables_alone_are_enough() -> None:
    step = described(TORCH)
    assert (step.started, step.rank, step.world_size) == ("torch", 5, 8)
    assert step.peers == {5: step.node}


def test_below_mpirun_alone() -> None:
    step = described(
        {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "2"}
    )
    assert (step.started, step.rank, step.world_size) == ("mpi", 2, 4)


def test_ranks_that_do_not_follow_the_node_list_are_not_guessed() -> None:
    step = described(SLURM | {"SLURM_DISTRIBUTION": "cyclic"})
    assert step.peers == {5: "n3"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"RANK": "x"}, "RANK='x' is no number"),
        ({"RANK": "8"}, "rank 8 of a world of 8"),
        ({"WORLD_SIZE": ""}, "rank 5 of a world of None"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT='http' is no number"),
    ],
)
def test_what_cannot_be_is_a_sentence(changed: dict[str, str], said: str) -> None:
    with pytest.raises(gangstart.GangstartError, match=said):
        described(TORCH | changed)


def test_the_report_is_read_when_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "start.json"
    step = described(SLURM | GANG | {"GANGSTART_REPORT": str(path)})
    assert not step.report
    path.write_text("not yet")
    assert not step.report
    nodes = [{"name": "n9", "tasks": [{"rank": 0}, {"rank": "x"}, 3]}, 7, {"name": 1}]
    path.write_text(json.dumps({"nodes": nodes, "outcome": "released"}))
    assert step.report is not None
    assert step.report["outcome"] == "released"
    assert step.peers[0] == "n9"
    assert described(SLURM | GANG) == described(SLURM | GANG)


def test_importing_the_package_loads_nothing_of_it() -> None:
    program = (
        "import sys, gangstart\n"
        "print([m for m in sys.modules if m.startswith('gangstart')])\n"
        "print(all(callable(getattr(gangstart, n)) for n in gangstart.__all__))\n"
        "from gangstart import gpulook\nprint(callable(gangstart.health))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["['gangstart']", "True", "True"]


def test_a_name_that_is_none_of_ours_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'barier'"):
        gangstart.barier  # noqa: B018 - the look is the test
