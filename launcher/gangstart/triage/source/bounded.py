"""Run a command with an end: a deadline, a most of output, and nothing left behind.

What hangs is killed with everything it started: the command leads a process group of
its own. A process that even SIGKILL does not end (in the kernel, on a dead file
system) is left, and not waited for. A process that is about to exit while its threads
still run commands calls `end_all`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OUTPUT_BYTES = 64 << 20
ERROR_BYTES = 1 << 16
BLOCK = 1 << 16
REAP_S = 1.0
SAID = 160  # characters of a command's complaint that are shown


@dataclass(frozen=True)
class Ran:
    """What came of a command. `why` is "" when it ended by itself within its limits."""

    code: int | None
    out: bytes = b""
    err: str = ""
    why: str = ""

    @property
    def complaint(self) -> str:
        """Why there is no answer: "" after an end with code 0."""
        if self.why or self.code == 0:
            return self.why
        said = " ".join(self.err.split())[:SAID]
        return f"it ended with code {self.code}" + (f": {said}" if said else "")


@dataclass
class Started:
    """Commands of this process that run now, of all its threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    over: bool = False


STARTED = Started()


def end_all() -> None:
    """Kill every command that runs, and start none any more."""
    with STARTED.lock:
        STARTED.over = True
        for child in STARTED.running:
            kill(child)


class Runner(Protocol):
    """Runs a command; tests play recorded answers instead."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        env: Mapping[str, str],
        limit: int = OUTPUT_BYTES,
    ) -> Ran:
        """Run `argv` for at most `deadline_s` seconds; never raises."""
        ...


def run(
    argv: Sequence[str],
    *,
    deadline_s: float,
    env: Mapping[str, str],
    limit: int = OUTPUT_BYTES,
) -> Ran:
    """Run a command and gather at most `limit` bytes of its output."""
    try:
        child = start(argv, env)
    except OSError as error:
        return Ran(None, why=f"{argv[0]} cannot be started: {error.strerror}")
    if child is None:
        return Ran(None, why="gangstart is ending")
    end = time.monotonic() + deadline_s
    try:
        out, err, why = gather(child, end, limit)
        if not why:
            why = reap(child, max(end - time.monotonic(), 0.0), deadline_s)
    finally:
        finish(child)
    told = err.decode(errors="replace")
    if why == LATE:
        why = f"it did not answer within {deadline_s:g} s"
    return Ran(None if why else child.returncode, bytes(out), told, why)


def start(
    argv: Sequence[str], env: Mapping[str, str]
) -> subprocess.Popen[bytes] | None:
    """Start a command that `end_all` knows of; None after that was called."""
    with STARTED.lock:
        if STARTED.over:
            return None
        child = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        STARTED.running.add(child)
        return child


LATE = "late"


def gather(
    child: subprocess.Popen[bytes], end: float, limit: int
) -> tuple[bytearray, bytearray, str]:
    """Read both outputs to their end; what they held, and why reading stopped."""
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for pipe, kept, most in (
            (child.stdout, out, limit),
            (child.stderr, err, ERROR_BYTES),
        ):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, (kept, most))
        while selector.get_map():
            left = end - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                return out, err, LATE
            for key, _ in ready:
                part = os.read(key.fd, BLOCK)
                kept, most = key.data
                kept += part[: max(most - len(kept), 0)]
                if not part:
                    selector.unregister(key.fileobj)
                elif kept is out and len(out) >= limit:
                    return out, err, f"it printed more than {limit >> 20} MiB"
    return out, err, ""


def reap(child: subprocess.Popen[bytes], left: float, deadline_s: float) -> str:
    """Wait for the end of a command that has closed its outputs."""
    try:
        child.wait(min(left, deadline_s))
    except subprocess.TimeoutExpired:
        return LATE
    return ""


def finish(child: subprocess.Popen[bytes]) -> None:
    """Leave nothing: the group is killed, the pipes closed, the child reaped."""
    with STARTED.lock:  # whose number it is, once it is reaped, nobody knows
        kill(child)
        STARTED.running.discard(child)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel
        child.wait(REAP_S)


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a command with everything it started."""
    # It has ended, or is another user's by now (a setuid program).
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
