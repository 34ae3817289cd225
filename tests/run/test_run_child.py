"""The program as a child, without MPI: streams, signals, statuses, nobody left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from run.mpitools import GANGSTART, PREFIXES, is_alive, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "1",
    "GANGSTART_STEP": "7.0",
    "GANGSTART_MASTER": "10.0.0.1 4000",
    "RANK": "0",
    "MASTER_ADDR": "10.0.0.1",
}


def started(
    *arguments: str, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start gangstart run in a step that the plugin has started: MPI is not asked."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    return subprocess.Popen(
        [GANGSTART, "run", *arguments],
        env={**kept, **STEP, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run it to its end."""
    with started(*arguments, env=env) as running:
        out, err = running.communicate("typed\n", timeout=30)
    return running.returncode, out, err


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    """A file for pids, whose processes must be gone at the end."""
    place = tmp_path / "pids"
    yield place
    until("all is gone", lambda: not any(map(is_alive, read(place))))


def read(place: Path) -> list[int]:
    return [int(word) for word in place.read_text().split()] if place.exists() else []


def family(place: Path) -> str:
    """A shell with a child of its own, both noted, that wait for long."""
    return f"sleep 300 & echo $! $$ > {place}.new; mv {place}.new {place}; wait"


def test_streams_are_the_programs_own() -> None:
    assert run("--", "sh", "-c", "cat; echo bad >&2") == (0, "typed\n", "bad\n")


@pytest.mark.parametrize(("how", "code"), [("exit 3", 3), ("kill -USR1 $$", 138)])
def test_the_status_is_passed_on(how: str, code: int) -> None:
    assert run("--", "sh", "-c", how)[0] == code


def test_a_program_that_is_not_there_ends_in_one_sentence() -> None:
    code, out, err = run("--", "/nonexistent/x")

    assert (code, out) == (127, "")
    assert err == (
        "gangstart: run: cannot execute /nonexistent/x: No such file or directory\n"
    )


def test_a_program_without_a_name_ends_in_one_sentence() -> None:
    code, _, err = run("--", "")

    assert (code, err.count("\n")) == (127, 1)
    assert err.startswith("gangstart: run: what to run is empty")


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (("--grace", "x", "--", "true"), "seconds, 0 to 86400, are allowed"),
        (("--keep-mpi", "--in-process", "--", "x.py"), "not allowed with"),
        (("--in-process", "--", "-c", "1"), "a script, or -m and a module"),
        (("--in-process", "--", "-m"), "a script, or -m and a module"),
    ],
)
def test_a_bad_option_is_one_sentence_that_says_what_is_allowed(
    words: tuple[str, ...], allowed: str
) -> None:
    code, _, err = run(*words)

    assert (code, err.count("\n")) == (2, 1)
    assert allowed in err


def test_without_a_program_the_usage_is_named() -> None:
    code, _, err = run("timeout=5")

    assert code == 2
    assert "say what to run after --" in err


def test_a_changed_rank_in_a_started_step_is_refused() -> None:
    code, out, err = run("--", "echo", "ran", env={"RANK": "5"})

    assert (code, out) == (78, "")
    assert "RANK=5, but SLURM_PROCID=0" in err


def test_a_changed_address_in_a_started_step_is_said() -> None:
    code, out, err = run("--", "echo", "ran", env={"MASTER_ADDR": "n001"})

    assert (code, out) == (0, "ran\n")
    assert "warning: MASTER_ADDR=n001 is not 10.0.0.1" in err


def test_signals_reach_the_program(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = (
        f"trap 'echo got; exit 4' USR1; echo > {ready}; while :; do sleep 0.1; done"
    )
    with started("--", "sh", "-c", script) as running:
        until("the trap is set", ready.exists)
        running.send_signal(signal.SIGUSR1)
        out, _ = running.communicate(timeout=30)

    assert (running.returncode, out) == (4, "got\n")


@pytest.mark.parametrize(("name", "code"), [("USR1", 4), ("TERM", 143)])
def test_a_signal_of_the_programs_first_moment_is_not_lost(
    name: str, code: int
) -> None:
    script = f"trap 'exit 4' USR1; kill -{name} $PPID; while :; do sleep 0.1; done"

    assert run("--", "sh", "-c", script)[0] == code


@pytest.mark.parametrize("spec", ["off", "health=off"])
def test_what_the_user_ignores_stays_ignored_as_with_nohup(
    tmp_path: Path, spec: str
) -> None:
    """By gangstart run and by the program, also with a start of our own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    program = "kill -HUP $PPID; kill -HUP $$; echo ran"
    mine = {"XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["nohup", GANGSTART, "run", spec, "--", "sh", "-c", program],
        env={**kept, **mine}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_sigterm_ends_the_whole_program(pids: Path) -> None:
    with started("--", "sh", "-c", family(pids)) as running:
        until("it runs", pids.exists)
        running.terminate()
        running.communicate(timeout=30)

    assert running.returncode == 143


def test_what_ignores_sigterm_is_killed_after_the_grace(pids: Path) -> None:
    script = f"trap '' TERM; {family(pids)}; {family(pids)}"
    with started("--grace", "0.5", "--", "sh", "-c", script) as running:
        until("it runs", pids.exists)
        running.terminate()
        running.communicate(timeout=30)

    assert running.returncode == 137


def test_kill_9_leaves_no_orphan(pids: Path) -> None:
    with started("--", "sh", "-c", family(pids)) as running:
        until("it runs", pids.exists)
        running.kill()
        running.wait(timeout=30)


def test_a_parent_that_is_killed_leaves_no_orphan(pids: Path) -> None:
    inner = [GANGSTART, "run", "--grace", "1", "--", "sh", "-c", family(pids)]
    code = f"import subprocess; subprocess.run({inner!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **STEP},
        stdin=subprocess.DEVNULL,
    ) as parent:
        until("it runs", pids.exists)
        parent.kill()


def test_what_the_program_leaves_behind_is_ended(pids: Path) -> None:
    script = f"sleep 300 >/dev/null 2>&1 & echo $! > {pids}"

    assert run("--", "sh", "-c", script)[0] == 0
    assert len(read(pids)) == 1


def test_mpi_variables_are_removed_unless_kept() -> None:
    env = {"PMIX_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}

    assert "PMIX_RANK" not in run("--", "env", env=env)[1]
    assert "PMIX_RANK=0" in run("--keep-mpi", "--", "env", env=env)[1]


def test_help_names_the_spec_and_the_exit_codes() -> None:
    code, out, _ = run("--help")

    assert code == 0
    for word in ("timeout", "health", "--grace", "75", "69", "78"):
        assert word in out


def test_the_program_inherits_the_standard_streams_and_nothing_else() -> None:
    inside = "import os; print(sorted(os.listdir('/proc/self/fd'), key=int))"
    shell = f'exec 7</dev/null; {GANGSTART} run off -- {sys.executable} -c "{inside}"'
    done = subprocess.run(
        ["sh", "-c", shell], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (0, "['0', '1', '2', '3']\n"), done.stderr


def test_closed_standard_streams_are_no_reason_not_to_start(tmp_path: Path) -> None:
    shell = f"{GANGSTART} run off -- touch {tmp_path}/ran <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", shell], timeout=60, check=False)

    assert done.returncode == 0
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("streams", ["<&- >&- 2>&-", "2>&-", "2>/dev/full"])
def test_nor_not_to_start_where_nobody_can_read_the_line(
    tmp_path: Path, streams: str
) -> None:
    """With a start of our own, in a world of one."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    shell = f"{GANGSTART} run health=off -- touch {tmp_path}/ran {streams}"
    mine = {"XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", shell], env={**kept, **mine}, timeout=60, check=False
    )

    assert done.returncode == 0
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full"])
def test_the_code_of_an_error_counts_where_nobody_can_read_it(stream: str) -> None:
    shell = f"{GANGSTART} run timeot=3 -- true {stream}"
    done = subprocess.run(
        ["sh", "-c", shell], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (78, "")
