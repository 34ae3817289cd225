"""Fake srun, slurmstepd, sbatch … around the real plugin; see host.h for the C side.

Each process is a real one: `host` loads spank_gangstart.so and calls its hooks as Slurm
does, over loopback, and tells in one JSON line each what happens.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DEADLINE_S = 20.0
SANITIZER = ("ASAN_OPTIONS", "UBSAN_OPTIONS")
Event = dict[str, Any]


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition that nobody announces."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        select.select([], [], [], 0.002)


def is_waiting(pid: int) -> bool:
    """Tell whether a task has reached the barrier and sleeps there."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return "(gang-wait) S" in stat


class Run:
    """A started process of Slurm's, with all that it starts."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], umask: int = -1
    ) -> None:
        """Start it; its stdin stays open until it is told to end."""
        self.begun = time.monotonic()
        self.events: list[Event] = []
        self._errors = os.memfd_create("stderr")
        self._rest = b""
        self._open = True
        self._process = subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            umask=umask,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        """Process id of the process itself."""
        return self._process.pid

    @property
    def stderr(self) -> str:
        """What the user has read so far."""
        size = os.fstat(self._errors).st_size
        return os.pread(self._errors, size, 0).decode()

    @property
    def lines(self) -> list[str]:
        """The same, line by line."""
        return self.stderr.splitlines()

    def _read(self, end: float) -> bool:
        """Take in what has come; False at the end of everything that was started."""
        left = end - time.monotonic()
        ready = select.select([self._stdout], [], [], max(left, 0))[0]
        assert ready, f"still running after {DEADLINE_S} s: {self.events} {self.stderr}"
        block = os.read(self._stdout.fileno(), 65536)
        *whole, self._rest = (self._rest + block).split(b"\n")
        self.events += [json.loads(line) for line in whole]
        self._open = bool(block)
        return self._open

    def all(self, kind: str, **wanted: object) -> list[Event]:
        """Events so far of one kind with these values."""
        return [
            e
            for e in self.events
            if e["event"] == kind and all(e[k] == v for k, v in wanted.items())
        ]

    def wait_for(self, kind: str, **wanted: object) -> Event:
        """Wait for the first event of one kind with these values."""
        end = time.monotonic() + DEADLINE_S
        while not (found := self.all(kind, **wanted)):
            assert self._read(end), f"ended without {kind} {wanted}: {self.stderr}"
        return found[0]

    def task(self, rank: int) -> int:
        """Return the process id of a task that has been forked."""
        return int(self.wait_for("task", rank=rank)["pid"])

    def await_barrier(self, *ranks: int) -> None:
        """Wait until these tasks wait for the start."""
        for rank in ranks:
            pid = self.task(rank)
            until(lambda pid=pid: is_waiting(pid), f"rank {rank} waits")  # type: ignore[misc]

    def status(self, rank: int) -> int:
        """Return the wait status with which slurmstepd reaped a task."""
        return int(self.wait_for("ended", rank=rank)["status"])

    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self.begun

    def feed(self, data: bytes = b"") -> None:
        """Write to stdin and close it."""
        with suppress(BrokenPipeError):
            if not self._stdin.closed:
                self._stdin.write(data)
            self._stdin.close()

    def finish(self) -> int:
        """Wait until it and all that it started have ended; its exit code."""
        self.feed()
        end = time.monotonic() + DEADLINE_S
        while self._open:
            self._read(end)
        return self._process.wait(DEADLINE_S)

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        pids = [e["pid"] for e in self.events if "pid" in e] if self._open else []
        for pid in [*pids, *([] if self._process.poll() is not None else [self.pid])]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._process.wait(DEADLINE_S)
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()
        os.close(self._errors)


@dataclass
class Slurm:
    """One cluster for one test: folders of its own, and every process started in it."""

    host: Path
    plugin: Path
    folder: Path
    runs: list[Run] = field(default_factory=list)

    @property
    def spool(self) -> Path:
        """The nodes' spool (they share one, being one machine)."""
        return self.folder / "spool"

    @property
    def step(self) -> Path:
        """The spool of the usual step."""
        return self.spool / "7877.0"

    def env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Environment of the user's shell."""
        kept = {k: v for k, v in os.environ.items() if k in SANITIZER}
        base = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}
        return {**kept, **base, **(extra or {})}

    def start(
        self,
        mode: str,
        *options: str,
        nodes: Mapping[str, str] | None = None,
        ranks: Mapping[int, str] | None = None,
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        umask: int = -1,
    ) -> Run:
        """Start a process: nodes as NAME -> "0,3[:FATE]", ranks as RANK -> FATE."""
        argv = [str(self.host), mode, *options]
        if "--plugin" not in options:
            argv += ["--plugin", str(self.plugin)]
        for arg in [f"spool={self.spool}", *args]:
            argv += ["--arg", arg]
        for name, text in (nodes or {}).items():
            argv += ["--node", f"{name}={text}"]
        for rank, fate in (ranks or {}).items():
            argv += ["--rank", f"{rank}={fate}"]
        run = Run(argv, self.env(env), umask)
        self.runs.append(run)
        return run

    def srun(
        self,
        flag: str = "--gang-start=timeout=10",
        *options: str,
        **rest: Any,  # noqa: ANN401  start()'s
    ) -> Run:
        """Start a step that asks for a gang start ("" = without the flag)."""
        out = ["--out", str(self.folder)]
        return self.start("srun", *([flag] if flag else []), *out, *options, **rest)

    def stepd(self, block: Mapping[str, str], *options: str, **rest: Any) -> Run:  # noqa: ANN401  start()'s
        """Start one slurmstepd alone, with this environment of the job."""
        run = self.start("stepd", *options, "--out", str(self.folder), **rest)
        run.feed(b"".join(f"{k}={v}\0".encode() for k, v in block.items()))
        return run

    def found(self, rank: int) -> Event:
        """What a task found when it ran."""
        text = (self.folder / f"task.{rank}.json").read_text(encoding="utf-8")
        return dict(json.loads(text))

    def ran(self) -> list[int]:
        """Ranks that ran the user's program."""
        return sorted(
            int(p.name.split(".")[1]) for p in self.folder.glob("task.*.json")
        )

    def report(self) -> Event:
        """Return the user's own copy of the report."""
        (path,) = self.folder.glob(".local/state/gangstart/plain/*.json")
        return dict(json.loads(path.read_text(encoding="utf-8")))
