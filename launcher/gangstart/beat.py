"""heartbeat(): how far the training is, one JSON line to the step's user/ spool.

The training only leaves its newest state in memory; a thread writes it, at most once a
second, and once more when the process ends in order. So a step costs no system call,
and what a rank did last before it hung is on disk a second later.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, SupportsIndex

from gangstart.beatline import LINE_MAX, PHASE_MAX, STEP_MAX, file_name
from gangstart.errors import GangstartError
from gangstart.step import current

if TYPE_CHECKING:
    from pathlib import Path

INTERVAL_S = 1.0
EXIT_S = 1.0  # the end of the process waits this long for a write under way
FILE_MAX = 1 << 20  # bytes; then it becomes NAME.1, and an older one goes


class OnDevice(Protocol):
    """What a tensor says of itself."""

    @property
    def device(self) -> object:
        """Where its values are."""


State = tuple[object, object, object, float]


class Beats:
    """One process's heartbeats: the newest state, and the file it goes to."""

    def __init__(self) -> None:
        """Nothing is opened before the first heartbeat."""
        self.state: State | None = None
        self.dirty = False
        self.wake = threading.Event()
        self.lock = threading.RLock()  # a handler may call while we start
        self.started = False
        self.off = False
        self._fd = -1
        self._size = 0
        self._rank = 0
        self._path: Path | None = None

    def start(self) -> None:
        """Start the thread, once."""
        with self.lock:
            if self.started or self.off:
                return
            self.started = True
            threading.Thread(
                target=self._serve, name="gangstart-heartbeat", daemon=True
            ).start()

    def _serve(self) -> None:
        while not self.off:
            self.wake.wait()
            self.wake.clear()
            self.flush()
            time.sleep(INTERVAL_S)

    def flush(self, wait_s: float = -1) -> None:
        """Write the newest state if it is not written yet; wait_s: for the lock."""
        if not self.lock.acquire(timeout=wait_s):
            return
        try:
            self.dirty = False
            state, self.state = self.state, None
            if state is not None and not self.off:
                self._write(line_of(state, self._opened()))
        except (GangstartError, OSError, ValueError) as error:
            self._give_up(str(error))
        finally:
            self.lock.release()

    def _opened(self) -> int:
        """Open the file of this process, once; the rank that writes it."""
        if self._fd >= 0 or self.off:
            return self._rank
        step = current()
        self._rank = step.rank
        if step.spool is None:
            self.off = True
            return self._rank
        self._path = step.spool / "user" / file_name(step.rank, os.getpid())
        self._open(self._path)
        return self._rank

    def _open(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags | os.O_NONBLOCK, 0o644)
        self._size = os.fstat(self._fd).st_size

    def _write(self, line: bytes) -> None:
        if self.off or self._path is None:
            return
        if self._size + len(line) > FILE_MAX:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            os.close(self._fd)
            self._fd = -1
            self._open(self._path)
        put = os.write(self._fd, line)
        if put != len(line):  # part of a line would spoil the next one
            os.ftruncate(self._fd, self._size)
            raise OSError(28, "no space left in the spool")
        self._size += put

    def _give_up(self, why: str) -> None:
        """Say it once; the training goes on."""
        self.off = True
        logging.getLogger("gangstart").warning("heartbeats are not kept: %s", why)


_beats = Beats()


def _forked() -> None:
    """A forked child has no thread and is a process of its own."""
    global _beats  # noqa: PLW0603 - the child's own
    _beats = Beats()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _last() -> None:
    """Write what is not written yet; a disk that hangs may keep it."""
    _beats.flush(EXIT_S)


def heartbeat(
    step: int,
    *,
    loss: SupportsFloat | SupportsIndex | OnDevice | None = None,
    phase: str | None = None,
) -> None:
    """Say that this rank is in a step of its training. Call it as often as you like.

    step: of the training, 0 and up. loss: of this step; a tensor that is not in the
    CPU's memory is not read (that would wait for the GPU) and counts as unread: pass
    ``loss.item()`` where you have it anyway. phase: what the rank is doing, at most 64
    characters. At most one line a second is written, the newest one, by a thread; it
    goes to ``current().spool / "user"``, and nowhere if there is no spool.

    Never raises because of what it is given or what the disk says: what cannot be
    told is null in the line.
    """
    beats = _beats
    if beats.off:
        return
    told = loss if loss is None or type(loss) is float else readable(loss)
    beats.state = (step, told, phase, time.monotonic())
    if not beats.dirty:
        beats.dirty = True
        if not beats.started:
            starting(beats)
        beats.wake.set()


def starting(beats: Beats) -> None:
    """Start the thread; where no thread can be had there are no heartbeats."""
    try:
        beats.start()
    except RuntimeError:
        beats.off = True


#: A loss that is where reading it would wait.
UNREAD = "unread"


def readable(loss: object) -> object:
    """A loss as a number; UNREAD if it is on a device, None if it is no number."""
    try:
        device = getattr(loss, "device", None)
        if device is not None and str(device) != "cpu":
            return UNREAD
        detached: Any = getattr(loss, "detach", lambda: loss)()  # or torch warns
        return float(detached)
    except Exception:  # noqa: BLE001 - of any object's own methods; the training goes on
        return None


def line_of(state: State, rank: int) -> bytes:
    """A heartbeat's line, see docs/heartbeat.schema.json; at most LINE_MAX bytes."""
    step, loss, phase, mono = state
    shown = {
        "v": 1,
        "wall": round(time.time() - (time.monotonic() - mono), 6),
        "mono": round(mono, 6),
        "rank": rank,
        "pid": os.getpid(),
        "step": whole(step),
        "loss": number(loss),
        "phase": plain(phase),
    }
    line = json.dumps(shown, allow_nan=False).encode() + b"\n"
    if len(line) > LINE_MAX:
        raise ValueError(f"a line of {len(line)} bytes")
    return line


def whole(step: object) -> int | None:
    """A training step that a reader takes; None for anything else."""
    usual = type(step) is int and 0 <= step <= STEP_MAX
    if usual or isinstance(step, bool) or not hasattr(type(step), "__index__"):
        return step if usual else None  # type: ignore[return-value]  # usual: an int
    try:
        return whole(int(step.__index__()))  # type: ignore[attr-defined]  # it has it
    except Exception:  # noqa: BLE001 - of any object's own methods
        return None


def number(loss: object) -> float | str | None:
    """A loss as JSON can hold it."""
    if loss == UNREAD or not isinstance(loss, float):
        return UNREAD if loss == UNREAD else None
    if math.isnan(loss):
        return "nan"
    if math.isinf(loss):
        return "inf" if loss > 0 else "-inf"
    return loss


def plain(phase: object) -> str | None:
    """A phase without what could forge or break a line."""
    if not isinstance(phase, str):
        return None
    kept = phase[:PHASE_MAX].encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() else "?" for c in kept)
