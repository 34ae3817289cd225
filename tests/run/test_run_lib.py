"""The library below gangstart run under real MPIs: barrier, heartbeat, who am I."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from gangstart.beatline import read_beats
from run.mpitools import Mpi, why_not

reason = cache(why_not)

TELL = (
    "import gangstart as g, json, os, time\n"
    "step = g.current()\n"
    "def tell(**said): os.write(1, (json.dumps(said) + '\\n').encode())\n"
    "def attempt(seconds):\n"
    "    began = time.monotonic()\n"
    "    try: return g.barrier(seconds).number\n"
    "    except g.BarrierError as error:\n"
    "        tell(kind=type(error).__name__, missing=[m.rank for m in error.missing],\n"
    "             node=error.missing[0].node, took=time.monotonic() - began)\n"
)


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest, tmp_path: Path) -> Mpi:
    """Each MPI in turn; the runs' folders are the test's own."""
    name = str(request.param)
    if reason(name):
        pytest.skip(reason(name))
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    return Mpi(name, tmp_path, {"XDG_RUNTIME_DIR": str(runtime)})


def run(mpi: Mpi, ranks: int, program: str, more: str = "") -> list[dict[str, object]]:
    """Run it on every rank; what the ranks told."""
    done = mpi.run(ranks, f"timeout=40 {more}", "python3", "-c", TELL + program)
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture(autouse=True)
def with_our_python(mpi: Mpi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the ranks' python3 be the one that has gangstart."""
    import sys  # noqa: PLC0415 - for its folder alone

    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    monkeypatch.setitem(mpi.env, "PATH", path)


def test_ranks_meet_and_know_each_other(mpi: Mpi) -> None:
    program = (
        "numbers = [attempt(30) for _ in range(20)]\n"
        "tell(rank=step.rank, started=step.started, peers=len(step.peers),\n"
        "     outcome=step.report['outcome'], numbers=numbers)\n"
    )
    told = run(mpi, 4, program)
    numbers = list(range(1, 21))
    assert sorted(told, key=lambda one: str(one["rank"])) == [
        {
            "rank": rank,
            "started": "run",
            "peers": 4,
            "outcome": "released",
            "numbers": numbers,
        }
        for rank in range(4)
    ]


def test_a_missing_rank_is_named_by_all_others(mpi: Mpi) -> None:
    program = (
        "attempt(30)\n"
        "if step.rank == 2: time.sleep(3)\n"
        "else: attempt(1)\n"
        "if step.rank == 2: attempt(30)\n"
        "assert attempt(30) == 3\n"
    )
    told = run(mpi, 4, program)
    assert [one["kind"] for one in told] == ["BarrierTimeoutError"] * 4
    assert all(2 in one["missing"] for one in told)  # type: ignore[operator]  # a list


def test_a_rank_that_ended_is_named_at_once(mpi: Mpi) -> None:
    program = "attempt(30)\nif step.rank != 1: attempt(100)\n"
    told = run(mpi, 3, program)
    assert len(told) == 2
    for one in told:
        assert (one["kind"], one["missing"]) == ("BarrierLostError", [1])
        assert one["node"]
        assert float(str(one["took"])) < 60


def test_a_rank_that_is_killed_is_named_and_ends_the_run(mpi: Mpi) -> None:
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "attempt(30)\n"
        "if step.rank == 1: os.kill(os.getpid(), 9)\n"
        "attempt(100)\n"
    )
    done = mpi.run(3, "timeout=40 --grace 20", "python3", "-c", TELL + program)
    assert done.code == 137
    assert "rank 1 on" in done.ours()
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [one["missing"] for one in told] == [[1], [1]]


def test_heartbeats_lie_in_the_runs_private_folder_and_the_key_goes(mpi: Mpi) -> None:
    run(mpi, 2, "g.heartbeat(7, loss=1.5, phase='train'); attempt(30)\n")
    (folder,) = Path(mpi.env["XDG_RUNTIME_DIR"]).glob("gangstart-*/*")
    newest = read_beats(folder / "user").newest()
    assert {rank: beat.step for rank, beat in newest.items()} == {0: 7, 1: 7}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["user"]


def test_in_process_the_library_is_the_same(mpi: Mpi, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TELL + "tell(number=attempt(30), started=step.started)\n")
    done = mpi.run(2, "timeout=40 --in-process", str(script))
    assert done.code == 0, done.err
    told = [json.loads(line) for line in done.out.splitlines()]
    assert told == [{"number": 1, "started": "run"}] * 2
