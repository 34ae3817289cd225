"""heartbeat(): what is on disk is what was said last, and nothing ever raises."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from gangstart import beat
from gangstart.beat import Beats, heartbeat, line_of, readable
from gangstart.beatline import LINE_MAX, parse, read_beats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.world import make_spool, variables
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = json.loads((ROOT / "docs" / "heartbeat.schema.json").read_text())
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
    st.just(10**400),
)


class Rude:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)

    def __float__(self) -> float:
        raise ZeroDivisionError

    def __index__(self) -> int:
        raise KeyError

    def __str__(self) -> str:
        raise TypeError


class OnGpu:
    """A tensor on a device; reading it would wait."""

    device = "cuda:0"

    def __float__(self) -> float:
        pytest.fail("it was read")


def run(spool: Path, program: str, rank: int = 3) -> subprocess.CompletedProcess[str]:
    """Run a training of one rank to its end."""
    return subprocess.run(
        [sys.executable, "-c", f"import gangstart, os, sys, time\n{program}"],
        env=variables(spool, rank, 8),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Beats:
    """Heartbeats that nobody writes."""
    made = Beats()
    made.started = True
    monkeypatch.setattr(beat, "_beats", made)
    return made


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(step=ANYTHING, loss=ANYTHING, phase=ANYTHING)
def test_no_argument_raises_and_every_line_fits_the_schema(
    quiet: Beats,
    step: Any,  # noqa: ANN401 - on purpose
    loss: Any,  # noqa: ANN401 - on purpose
    phase: Any,  # noqa: ANN401 - on purpose
) -> None:
    heartbeat(step, loss=loss, phase=phase)
    assert quiet.state is not None
    line = line_of(quiet.state, 7)
    assert len(line) <= LINE_MAX
    jsonschema.validate(json.loads(line), SCHEMA)
    read = parse(line)
    assert (read.rank, read.pid) == (7, os.getpid())


def test_objects_that_raise_are_null(quiet: Beats) -> None:
    heartbeat(Rude(), loss=Rude(), phase=Rude())  # type: ignore[arg-type]  # on purpose
    assert quiet.state is not None
    read = parse(line_of(quiet.state, 0))
    assert (read.step, read.loss, read.phase) == (None, None, None)


def test_a_tensor_on_a_device_is_never_read(quiet: Beats) -> None:
    heartbeat(5, loss=OnGpu())
    assert quiet.state is not None
    read = parse(line_of(quiet.state, 0))
    assert (read.step, read.loss, read.unread) == (5, None, True)


def test_a_tensor_in_memory_is_read() -> None:
    torch = pytest.importorskip("torch", reason="needs torch (make setup)")
    assert readable(torch.tensor(2.5, requires_grad=True)) == 2.5
    assert readable(torch.ones(3)) is None
    assert readable(torch.empty(1, device="meta")) == beat.UNREAD


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, 2, 0.5])
def test_a_loss_is_read_back_as_it_was(quiet: Beats, loss: float) -> None:
    heartbeat(1, loss=loss)
    assert quiet.state is not None
    read = parse(line_of(quiet.state, 0)).loss
    assert read == loss or (read is not None and math.isnan(read) and math.isnan(loss))


def test_the_last_state_is_on_disk_after_an_orderly_end(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "step")
    done = run(
        spool,
        "for n in range(100_000): gangstart.heartbeat(n, loss=n / 2, phase='train')",
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = read_beats(spool / "user")
    assert found.refused == {}
    (beats,) = found.by_process.values()
    last = found.newest()[3]
    assert (last.step, last.loss, last.phase) == (99_999, 49_999.5, "train")
    assert len(beats) < 30, "at most one a second, and the last"


def test_what_was_said_before_a_hang_is_on_disk_though_nothing_more_is_said(
    tmp_path: Path,
) -> None:
    spool = make_spool(tmp_path / "step")
    program = (
        "from gangstart.beatline import read_beats\nfrom pathlib import Path\n"
        "gangstart.heartbeat(1); gangstart.heartbeat(2)\n"
        f"user = Path({str(spool / 'user')!r})\n"
        "while True:\n"
        "    found = read_beats(user).newest()\n"
        "    if found and found[3].step == 2: os._exit(0)\n"
        "    time.sleep(0.01)\n"
    )
    assert run(spool, program).returncode == 0


def test_a_forked_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "step")
    program = (
        "gangstart.heartbeat(1)\n"
        "pid = os.fork()\n"
        "gangstart.heartbeat(10 if pid else 20)\n"
        "if pid: os.waitpid(pid, 0)\n"
    )
    assert run(spool, program).returncode == 0
    found = read_beats(spool / "user")
    assert sorted(b[-1].step or 0 for b in found.by_process.values()) == [10, 20]


def test_a_file_is_bounded(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "step")
    program = (
        "from gangstart import beat\n"
        "beat.FILE_MAX = 1000\n"
        "for n in range(40):\n"
        "    gangstart.heartbeat(n); beat._beats.flush()\n"
    )
    done = run(spool, program)
    assert (done.returncode, done.stderr) == (0, "")
    sizes = {p.name.partition(".")[2]: p.stat().st_size for p in spool.glob("user/*")}
    assert sorted(sizes) == ["jsonl", "jsonl.1"]
    assert max(sizes.values()) <= 1000
    assert read_beats(spool / "user").newest()[3].step == 39


@pytest.mark.parametrize("trouble", ["no folder", "a link", "a pipe"])
def test_a_spool_that_cannot_be_written_is_one_sentence_and_no_more(
    tmp_path: Path, trouble: str
) -> None:
    spool = make_spool(tmp_path / "step")
    before = ""
    name = f"{str(spool / 'user')!r} + f'/heartbeat-3-{{os.getpid()}}.jsonl'"
    if trouble == "no folder":
        (spool / "user").rmdir()
    elif trouble == "a link":
        before = f"os.symlink({str(tmp_path / 'victim')!r}, {name})\n"
    else:
        before = f"os.mkfifo({name})\n"
    program = "for n in range(5): gangstart.heartbeat(n); time.sleep(0.3)\n"
    done = run(spool, before + program)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("heartbeats are not kept: ")
    assert not (tmp_path / "victim").exists()


def test_without_a_step_it_is_nothing(tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GANG", "SLURM"))}
    program = "import gangstart; [gangstart.heartbeat(n) for n in range(9)]"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=kept,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
