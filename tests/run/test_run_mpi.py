"""gangstart run under real MPIs: a good start, and each fault with its sentence."""

from __future__ import annotations

import json
import os
import signal
from functools import cache
from typing import TYPE_CHECKING

import jsonschema
import pytest
from repo import ROOT
from run.mpitools import GANGSTART, MPIS, Done, Mpi, finish, is_alive, until, why_not

if TYPE_CHECKING:
    from pathlib import Path

WHO = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK"
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())

reason = cache(why_not)


@pytest.fixture(params=MPIS)
def mpi(request: pytest.FixtureRequest, tmp_path: Path) -> Mpi:
    """Each MPI in turn."""
    name = str(request.param)
    if reason(name):
        pytest.skip(reason(name))
    # With Open MPI the session directory's path must be short.
    return Mpi(name, tmp_path)


def report(mpi: Mpi) -> dict[str, object]:
    """The one report that was written."""
    (path,) = mpi.state.glob("gangstart/local/*.json")
    made: dict[str, object] = json.loads(path.read_text())
    jsonschema.validate(made, SCHEMA)
    return made


def programs(folder: Path, ranks: int) -> list[int]:
    """Pids that the ranks' programs have left in a folder, once all are there."""

    def left() -> list[int]:
        found = [path.read_text().strip() for path in folder.glob("pid.*")]
        return [int(text) for text in found if text]

    until(f"{ranks} programs run", lambda: len(left()) == ranks)
    return left()


def note_pid(folder: Path) -> str:
    """Shell words that leave the program's pid in a folder."""
    return f"echo $$ > {folder}/pid.$RANK"


@pytest.mark.parametrize("ranks", [1, 2, 8, 16])
def test_every_rank_gets_its_environment_and_one_line_is_said(
    mpi: Mpi, ranks: int
) -> None:
    done = mpi.run(ranks, "timeout=40", "sh", "-c", WHO)

    assert (done.code, sorted(done.out.splitlines())) == (
        0,
        sorted(f"{i} {ranks} {i} {ranks} 0" for i in range(ranks)),
    ), done.err
    (line,) = done.ours().splitlines()
    assert f"{ranks}/{ranks} tasks on 1/1 nodes" in line


def test_the_report_of_a_good_start_fits_the_schema(mpi: Mpi) -> None:
    done = mpi.run(3, "timeout=40", "true")
    made = report(mpi)

    assert done.code == 0, done.err
    assert made["outcome"] == "released"
    assert made["arrived"] == {"nodes": 1, "tasks": 3}


def test_master_port_is_free_for_the_program_and_the_same_everywhere(mpi: Mpi) -> None:
    bind = (
        "import os, socket; s = socket.socket(); "
        "a = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']); "
        "os.environ['RANK'] == '0' and s.bind(a); "
        "os.write(1, f'{a[0]} {a[1]}\\n'.encode())"  # mpiexec mixes writes
    )
    done = mpi.run(4, "timeout=40", "python3", "-c", bind)

    assert done.code == 0, done.err
    assert len(set(done.out.splitlines())) == 1


def test_the_program_sees_nothing_of_the_launcher_unless_asked(mpi: Mpi) -> None:
    clean = mpi.run(2, "timeout=40", "env")
    kept = mpi.run(2, "timeout=40 --keep-mpi", "env")

    assert (clean.code, kept.code) == (0, 0), clean.err + kept.err
    assert f"{mpi.rank_name}=" not in clean.out
    assert f"{mpi.rank_name}=1" in kept.out


def test_exit_status_and_output_are_passed_on_untouched(mpi: Mpi) -> None:
    done = mpi.run(1, "timeout=40", "sh", "-c", "printf 'a\\tb'; exit 17")

    assert (done.code, done.out) == (17, "a\tb")


def test_the_first_failing_rank_is_named_and_ends_the_others(mpi: Mpi) -> None:
    program = "if [ $RANK = 2 ]; then exit 9; fi; exec sleep 300"
    done = mpi.run(4, "timeout=40 --grace 5", "sh", "-c", program)

    assert done.code == 9
    assert "rank 2 on" in done.ours()
    assert "failed first: exit code 9" in done.ours()
    assert done.seconds < 30


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(
    mpi: Mpi, tmp_path: Path
) -> None:
    stubborn = f"trap '' TERM; {note_pid(tmp_path)}; while :; do sleep 300; done"
    fail = f"until [ -s {tmp_path}/pid.0 ]; do :; done; exit 9"
    program = f"if [ $RANK = 1 ]; then {fail}; fi; {stubborn}"
    done = mpi.run(2, "timeout=40 --grace 1", "sh", "-c", program)

    assert done.code == 9
    assert not any(map(is_alive, programs(tmp_path, 1)))


def test_a_program_killed_by_a_signal_gives_128_plus_its_number(mpi: Mpi) -> None:
    program = "if [ $RANK = 1 ]; then kill -9 $$; fi; exec sleep 300"
    done = mpi.run(2, "timeout=40 --grace 5", "sh", "-c", program)

    assert done.code == 137
    assert "rank 1" in done.ours()
    assert "signal 9" in done.ours()


def graced(program: str) -> list[str]:
    """A shell program whose ranks get two seconds to end after a failure."""
    return [GANGSTART, "run", "timeout=40", "--grace", "2", "--", "sh", "-c", program]


def stop_one(mpi: Mpi, tmp_path: Path, victim: str) -> Done:
    """Start 3 sleeping ranks, SIGKILL one process of them, wait for the rest."""
    program = f"echo $PPID > {tmp_path}/run.$RANK; {note_pid(tmp_path)}; sleep 300"
    command = graced(program)
    with mpi.start(3, command) as running:
        pids = programs(tmp_path, 3)
        target = tmp_path / victim
        pid = running.pid if victim == "launcher" else int(target.read_text())
        os.kill(pid, signal.SIGKILL)
        out, err = finish(running)
    until("no program is left", lambda: not any(map(is_alive, pids)))
    return Done(running.returncode, out, err, 0.0)


def test_no_orphan_after_kill_9_of_one_rank(mpi: Mpi, tmp_path: Path) -> None:
    assert stop_one(mpi, tmp_path, "run.1").code != 0


def test_no_orphan_after_kill_9_of_the_rank_that_others_hear_of_failures_from(
    mpi: Mpi, tmp_path: Path
) -> None:
    assert stop_one(mpi, tmp_path, "run.0").code != 0


def test_no_orphan_after_kill_9_of_the_launcher(mpi: Mpi, tmp_path: Path) -> None:
    stop_one(mpi, tmp_path, "launcher")


def test_sigterm_to_the_launcher_ends_everything(mpi: Mpi, tmp_path: Path) -> None:
    program = f"{note_pid(tmp_path)}; sleep 300"
    command = graced(program)
    with mpi.start(2, command) as running:
        pids = programs(tmp_path, 2)
        running.terminate()
        finish(running)
    until("no program is left", lambda: not any(map(is_alive, pids)))

    if mpi.name != "debian-mpich":  # it may say 0 of what it has killed
        assert running.returncode != 0


@pytest.mark.parametrize("way", ["exec", "below a shell"])
def test_a_rank_that_never_calls_mpi_init_is_named_in_time(mpi: Mpi, way: str) -> None:
    late = f'if [ "${mpi.rank_name}" = 1 ]; then exec sleep 300; fi'
    command = f"{GANGSTART} run timeout=3 -- true"
    stays = f"{command}; exit $?"
    script = f"{late}; {stays if way == 'below a shell' else 'exec ' + command}"
    done = mpi.raw(3, ["sh", "-c", script])

    assert done.code == 75, done.err
    assert "MPI_Init" in done.ours()
    assert "ranks 0,2 called it; rank 1 never did" in done.ours()
    assert done.seconds < 30


def test_ranks_of_another_mpi_are_alone_and_the_launcher_is_named(mpi: Mpi) -> None:
    other = "mpich" if mpi.family == "openmpi" else "openmpi"
    if reason(other):
        pytest.skip(reason(other))
    wrong = [f"{k}={v}" for k, v in Mpi(other, mpi.state).variables().items()]
    command = ["env", *wrong, GANGSTART, "run", "timeout=20", "--", "echo", "ran"]
    done = mpi.raw(2, command)

    assert done.out == ""
    assert done.code in {75, 78}, done.err
    assert "started by" in done.ours() or "every rank is alone" in done.ours()


def test_an_environment_that_cannot_work_is_refused_with_78(mpi: Mpi) -> None:
    script = f"MASTER_PORT=99999 exec {GANGSTART} run timeout=40 -- echo ran"
    done = mpi.raw(2, ["sh", "-c", script])

    assert (done.code, done.out) == (78, ""), done.err
    assert "MASTER_PORT='99999' is not a port" in done.ours()
    assert report(mpi)["reason"] == "configuration"


def test_a_program_that_only_some_ranks_can_execute_is_refused(mpi: Mpi) -> None:
    lost = f'[ "${mpi.rank_name}" = 1 ] && echo /nonexistent/train || echo true'
    script = f"exec {GANGSTART} run timeout=40 -- $({lost})"
    done = mpi.raw(2, ["sh", "-c", script])

    assert done.code == 75, done.err
    assert "cannot execute /nonexistent/train" in done.ours()


def test_a_bad_spec_is_refused_before_anything_starts(mpi: Mpi) -> None:
    done = mpi.run(1, "timeout=never", "echo", "ran")

    assert (done.code, done.out) == (78, "")
    assert "timeout" in done.err


def test_a_start_inside_a_start_is_not_done_twice(mpi: Mpi) -> None:
    inner = (GANGSTART, "run", "timeout=40", "--", "sh", "-c", WHO)
    done = mpi.run(2, "timeout=40", *inner)

    assert (done.code, sorted(done.out.splitlines())) == (
        0,
        [f"{rank} 2 {rank} 2 0" for rank in range(2)],
    ), done.err
    assert len(done.ours().splitlines()) == 1


def test_a_program_that_cannot_be_executed_is_said_by_each_and_nothing_else(
    mpi: Mpi, tmp_path: Path
) -> None:
    program = tmp_path / "noshebang"
    program.write_text("echo hi\n")
    program.chmod(0o755)
    done = mpi.run(2, "timeout=40", str(program))

    assert done.code == 126
    assert f"cannot execute {program}: Exec format error (rank " in done.err
    assert "warning" not in done.err
