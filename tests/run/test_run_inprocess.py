"""--in-process: the program uses the MPI that the start has initialised."""

from __future__ import annotations

import os
import signal
from functools import cache
from typing import TYPE_CHECKING

import pytest
from run.mpitools import GANGSTART, MPIS, Done, Mpi, finish, is_alive, until, why_not

if TYPE_CHECKING:
    from pathlib import Path

reason = cache(why_not)


@pytest.fixture(params=MPIS)
def mpi(request: pytest.FixtureRequest, tmp_path: Path) -> Mpi:
    """Each MPI in turn."""
    name = str(request.param)
    if reason(name):
        pytest.skip(reason(name))
    return Mpi(name, tmp_path)


def script(folder: Path, body: str) -> str:
    """A script that has mpi4py's world at hand."""
    path = folder / "train.py"
    head = (
        "import os, sys, time\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "def say(line): os.write(1, f'{line}\\n'.encode())  # mpiexec mixes writes\n"
    )
    path.write_text(head + body)
    return str(path)


def run(mpi: Mpi, ranks: int, *program: str) -> Done:
    """Run it in the interpreter of the start."""
    return mpi.run(ranks, "timeout=40 --in-process --grace 2", *program)


def test_a_script_uses_mpi_with_its_arguments_and_environment(
    mpi: Mpi, tmp_path: Path
) -> None:
    body = (
        "own = world.rank == int(os.environ['RANK'])\n"
        "say(f'{world.allreduce(1)} {own} {sys.argv[1]}')"
    )
    done = run(mpi, 3, script(tmp_path, body), "--lr=1")

    assert (done.code, done.out) == (0, "3 True --lr=1\n" * 3), done.err


def test_a_module_is_run_as_main(mpi: Mpi, tmp_path: Path) -> None:
    script(tmp_path, "say(f'{__name__} {world.size}')")
    mpi.env["PYTHONPATH"] = str(tmp_path)
    done = run(mpi, 2, "-m", "train")

    assert (done.code, done.out) == (0, "__main__ 2\n" * 2), done.err


def test_a_program_may_finalize_mpi_itself(mpi: Mpi, tmp_path: Path) -> None:
    done = run(mpi, 2, script(tmp_path, "MPI.Finalize(); say('done')"))

    assert (done.code, done.out) == (0, "done\n" * 2), done.err


def test_an_exception_on_one_rank_ends_the_others_that_wait_in_mpi(
    mpi: Mpi, tmp_path: Path
) -> None:
    body = "assert world.rank != 1, 'no data'\nworld.Barrier()\nworld.recv(source=1)\n"
    done = run(mpi, 3, script(tmp_path, body))

    assert done.code != 0
    assert "AssertionError: no data" in done.err
    assert done.seconds < 30


@pytest.mark.parametrize(
    ("end", "code", "how"),
    [
        ("sys.exit(4)", 4, "exit code 4"),
        ("raise ValueError('no data')", 1, "exit code 1"),
        ("os.kill(os.getpid(), 9)", 137, "signal 9"),
    ],
    ids=["exit", "exception", "signal"],
)
def test_the_first_failing_rank_is_named_and_its_exit_code_counts(
    mpi: Mpi, tmp_path: Path, end: str, code: int, how: str
) -> None:
    body = f"if world.rank == 1: {end}\nworld.recv(source=1)\n"
    done = run(mpi, 3, script(tmp_path, body))

    assert done.code == code, done.err
    assert "rank 1 on" in done.ours()
    assert f"failed first: {how}" in done.ours()


def test_kill_9_of_one_rank_leaves_no_orphan(mpi: Mpi, tmp_path: Path) -> None:
    body = (
        f"place = '{tmp_path}/pid.%d' % world.rank\n"
        "open(place + '.new', 'w').write('%d %d' % (os.getpid(), os.getppid()))\n"
        "os.rename(place + '.new', place)\n"
        "if os.fork() == 0: time.sleep(300)\n"
        "world.recv(source=1)\n"
    )
    words = ["run", "timeout=40", "--in-process", "--grace", "2", "--"]
    with mpi.start(2, [GANGSTART, *words, script(tmp_path, body)]) as running:
        notes = [tmp_path / f"pid.{rank}" for rank in range(2)]
        until("both run", lambda: all(note.exists() for note in notes))
        pids = [int(word) for note in notes for word in note.read_text().split()]
        os.kill(pids[3], signal.SIGKILL)
        finish(running)

    assert running.returncode != 0
    until("nobody is left", lambda: not any(map(is_alive, pids)))


def test_a_fork_of_the_program_that_ends_leaves_mpi_to_the_rank(
    mpi: Mpi, tmp_path: Path
) -> None:
    body = (
        "child = os.fork()\n"
        "if child == 0: sys.exit(0)\n"
        "status = os.waitpid(child, 0)[1]\n"
        "say(f'{status} {world.allreduce(1)}')"
    )
    done = run(mpi, 2, script(tmp_path, body))

    assert (done.code, done.out) == (0, "0 2\n" * 2), done.err


def test_a_traceback_begins_in_the_program(mpi: Mpi, tmp_path: Path) -> None:
    done = run(mpi, 1, script(tmp_path, "raise ValueError('no data')"))

    assert (done.code, done.err.count("  File ")) == (1, 1), done.err
    assert "ValueError: no data" in done.err


def test_a_script_that_is_not_there_is_one_sentence(mpi: Mpi) -> None:
    done = run(mpi, 1, "/nonexistent.py")

    assert done.code == 127
    assert "gangstart: run: cannot open /nonexistent.py: No such file" in done.err
    assert "Traceback" not in done.err
