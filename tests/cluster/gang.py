"""What the tests of the plugin share: steps on a cluster, and what they leave."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gangstart.cluster import process
from gangstart.cluster.config import HEAD, SLURMCTLD_PORT, SLURMD_PORT, address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gangstart.cluster import Cluster

#: Name of a task that waits at the barrier.
WAITING = "gang-wait"
LISTEN = "0A"
DAEMONS = {"munged", "slurmctld", "slurmscriptd", "slurmd"}
#: A line of a refusal: nodes, their ranks, what is the matter with them.
BLAME = re.compile(r"  (\S+) +ranks? (\S+) +(.*)")
#: Prints nothing but leaves a trace of every task that was started; works without PATH.
TRACE = ("/bin/sh", "-c", ': > "$0/ran.$SLURM_PROCID"')


def until(ready: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Wait for something with a deadline."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.02)


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str
    seconds: float
    #: When each line of err came, in seconds since the start.
    times: tuple[float, ...]

    @property
    def told(self) -> list[str]:
        """What gang-start said: its lines, and the indented ones below them."""
        found: list[str] = []
        ours = False
        for line in self.err.splitlines():
            said = "gang-start:" in line or "gangstart:" in line
            ours = said or (ours and line.startswith("  "))
            if ours:
                found.append(line)
        return found

    @property
    def rows(self) -> list[list[str]]:
        """Standard output, a list of words per line, in the order of its numbers."""
        rows = [line.split() for line in self.out.splitlines()]
        return sorted(rows, key=lambda row: [int(w) if w.isdigit() else 0 for w in row])

    def when(self, part: str) -> float:
        """When the line with this part came."""
        lines = self.err.splitlines()
        return next(
            t for t, line in zip(self.times, lines, strict=True) if part in line
        )


class Running:
    """A command that may still run; its output is collected as it comes."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen
        self.begun = time.monotonic()
        self.lines: dict[str, list[tuple[float, str]]] = {"out": [], "err": []}
        pipes = {"out": popen.stdout, "err": popen.stderr}
        self._readers = [
            threading.Thread(target=self._read, args=(name, pipe))
            for name, pipe in pipes.items()
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, pipe: IO[str]) -> None:
        for line in pipe:
            self.lines[name].append((time.monotonic() - self.begun, line))
        pipe.close()

    def text(self, name: str) -> str:
        """What has come so far on "out" or "err"."""
        return "".join(line for _, line in list(self.lines[name]))

    def send(self, number: signal.Signals) -> None:
        """Signal the command itself, as a person at its terminal would."""
        self.popen.send_signal(number)

    def wait(self, seconds: float = 60) -> Ran:
        """Wait for its end; whatever happens, it does not outlive the test."""
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(
                f"no end within {seconds} s:\n{self.text('out')}{self.text('err')}"
            ) from None
        took = time.monotonic() - self.begun
        for reader in self._readers:
            reader.join(10)
        times = tuple(t for t, _ in self.lines["err"])
        return Ran(code, self.text("out"), self.text("err"), took, times)


class Watch:
    """A shell that stays on the head: what is asked often must be cheap to ask."""

    END = "-- end --"
    ASK = f"squeue -h; echo --; sinfo -h -N -o '%N %T'; echo '{END}'\n"

    def __init__(self, cluster: Cluster) -> None:
        self.popen = cluster.popen(
            ["sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def ask(self) -> tuple[list[str], dict[str, str]]:
        """Return the lines of squeue, and node -> state."""
        to, back = self.popen.stdin, self.popen.stdout
        assert to is not None
        assert back is not None
        to.write(self.ASK)
        to.flush()
        lines = [line.strip() for line in iter(back.readline, f"{self.END}\n")]
        middle = lines.index("--")
        states = dict(line.split() for line in lines[middle + 1 :])
        return lines[:middle], states

    def close(self) -> None:
        """End the shell."""
        self.popen.communicate(timeout=10)


class Gang:
    """One test's view of the cluster: a folder of its own that every node sees."""

    def __init__(
        self, cluster: Cluster, folder: Path, watch: Watch, user: str = ""
    ) -> None:
        self.cluster = cluster
        self.folder = folder
        self.watch = watch
        self.user = user
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def start(
        self,
        command: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401  Popen's
    ) -> Running:
        """Start a command on the head."""
        popen = self.cluster.popen(
            [str(word) for word in command],
            user=self.user,
            env={**self.env, **(env or {})},
            cwd=self.folder,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        return Running(popen)

    def run(
        self,
        command: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        seconds: float = 60,
    ) -> Ran:
        """Run a command on the head to its end."""
        return self.start(command, env).wait(seconds)

    def srun(
        self,
        *words: str | Path,
        env: Mapping[str, str] | None = None,
        seconds: float = 60,
    ) -> Ran:
        """Run srun to its end."""
        return self.run(["srun", *words], env, seconds)

    def batch(self, *options: str, script: str) -> tuple[str, str]:
        """Run a batch script to its end and return its output and errors."""
        path = self.folder / "batch.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        files = [
            f"--output={self.folder}/out.%A.%a",
            f"--error={self.folder}/err.%A.%a",
        ]
        ran = self.run(["sbatch", "--parsable", *files, *options, path])
        assert ran.code == 0, ran.err
        self.quiet()

        def text(name: str) -> str:
            parts = sorted(self.folder.glob(f"{name}.{ran.out.strip()}.*"))
            return "".join(part.read_text() for part in parts)

        return text("out"), text("err")

    def trace(self) -> list[str | Path]:
        """Command whose tasks leave a file each: see `started`."""
        return [*TRACE, self.folder]

    def started(self) -> list[int]:
        """Return the ranks whose program was started by `trace`."""
        return sorted(int(p.suffix[1:]) for p in self.folder.glob("ran.*"))

    def pids(self, name: str) -> dict[int, str]:
        """Every living process of this name in the cluster, with its node."""
        return {
            pid: node
            for pid, node in self.cluster.pids().items()
            if process.command_name(pid) == name and process.start_time(pid) is not None
        }

    def until_waiting(self, count: int) -> None:
        """Wait until so many tasks stand at the barrier."""
        until(lambda: len(self.pids(WAITING)) == count, f"{count} tasks to wait")

    def reports(self, step: str = "*") -> dict[str, dict[str, Any]]:
        """Node -> the start report that lies on it during a step."""
        found = self.cluster.directory.glob(f"node/n*/run/{step}/sys/start.json")
        return {path.parts[-5]: json.loads(path.read_text()) for path in found}

    def archived(self, step: str) -> dict[str, Any]:
        """Return a step's complete report, which comes with the job's epilog."""
        path = self.cluster.directory / "archive" / step / "start.json"
        until(path.exists, f"{path} to be archived", 20)
        report: dict[str, Any] = json.loads(path.read_text())
        return report

    def copies(self) -> list[dict[str, Any]]:
        """Return the user's own copies of reports, oldest first."""
        paths = sorted(
            (self.folder / "state").rglob("*.json"), key=lambda p: p.stat().st_mtime_ns
        )
        return [json.loads(path.read_text()) for path in paths]

    def quiet(self, seconds: float = 30) -> None:
        """Wait until no job is left and every node is free."""

        def idle() -> bool:
            jobs, nodes = self.watch.ask()
            return not jobs and set(nodes.values()) == {"idle"}

        try:
            until(idle, "an empty queue and idle nodes", seconds)
        except AssertionError:
            self.sweep()
            raise

    def sweep(self) -> None:
        """End whatever runs, so that one test's trouble is not the next one's."""
        self.run(["scancel", "-u", "root"])
        if self.user:
            self.run(["scancel", "-u", self.user])
        for pid in self.strangers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def strangers(self) -> dict[int, str]:
        """Every living process in the cluster but its daemons, with its node."""
        ours = {self.cluster.state.keeper, self.watch.popen.pid}
        return {
            pid: node
            for pid, node in self.cluster.pids().items()
            if pid not in ours
            and process.command_name(pid) not in DAEMONS
            and process.start_time(pid) is not None
        }

    def leftovers(self) -> list[str]:
        """List everything that a step may leave on the nodes and must not."""
        jobs, nodes = self.watch.ask()
        found = [f"job: {line}" for line in jobs]
        found += [f"{n} is {told}" for n, told in nodes.items() if told != "idle"]
        for pid, node in self.strangers().items():
            found.append(f"process {pid} {process.command_name(pid)} on {node}")
        for path in self.cluster.directory.glob("node/*/run/*"):
            # The records of the latest jobs stay, and the probe's lock.
            if path.suffix not in (".node", ".lock"):
                found.append(f"file {path}")
        return found + list(self.sockets())

    def sockets(self) -> Iterator[str]:
        """List the listening sockets on the nodes that are not Slurm's daemons'."""
        names = {HEAD: "slurmctld"} | dict.fromkeys(self.cluster.nodes, "slurmd")
        own = {f"{SLURMCTLD_PORT:04X}", f"{SLURMD_PORT:04X}"}
        for node, name in names.items():
            for pid in self.cluster.node_pids(node, name)[:1]:
                for table in ("tcp", "tcp6"):
                    rows = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()
                    for row in rows[1:]:
                        columns = row.split()
                        port = columns[1].rpartition(":")[2]
                        if columns[3] == LISTEN and port not in own:
                            yield f"socket on {node} port {int(port, 16)}"

    def clean(self, seconds: float = 10) -> None:
        """Assert that within so many seconds nothing is left of any step."""
        end = time.monotonic() + seconds
        while left := self.leftovers():
            if time.monotonic() > end:
                self.sweep()
                raise AssertionError(f"left after {seconds} s: {left}")
            time.sleep(0.05)

    @contextlib.contextmanager
    def plugstack(self, *rows: str) -> Iterator[None]:
        """Give the cluster another plugstack.conf; {ours} stands for the usual row."""
        path = self.cluster.directory / "etc" / "plugstack.conf"
        usual = path.read_text()
        write_whole(
            path, "".join(f"{row}\n" for row in rows).format(ours=usual.strip())
        )
        try:
            yield
        finally:
            try:
                self.quiet()
            finally:
                write_whole(path, usual)

    def address(self, node: str) -> str:
        """Return the node's address on the cluster's network."""
        return address(self.cluster.nodes.index(node) + 1)


def write_whole(path: Path, text: str) -> None:
    """Replace a file at once: Slurm may be reading it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


# Phases that a reason may follow.
PHASES = ("never connected", "not started")


def phase(matter: str) -> str:
    """What is the matter, without the reason that was found out for it."""
    before, _, _ = matter.partition(": ")
    return before if before.endswith(PHASES) else matter


def why(ran: Ran, node: str) -> str:
    """The reason that was found out for a node, "" if none was."""
    for line in ran.told:
        row = BLAME.fullmatch(line)
        if row and row[1] == node:
            return row[3].partition(": ")[2]
    return ""


def refusal(ran: Ran, code: int = 75) -> dict[str, tuple[str, str]]:
    """Check a refused start; return nodes -> (ranks, what is the matter).

    Nobody but the nodes returned may be named anywhere in it.
    """
    assert ran.code == code, f"exit code {ran.code}:\n{ran.err}"
    heads = [line for line in ran.told if " refused after " in line]
    assert len(heads) == 1, ran.err
    rows = [BLAME.fullmatch(line) for line in ran.told]
    blamed = {row[1]: (row[2], phase(row[3])) for row in rows if row}
    text = "\n".join(ran.told)
    named = {f"n{digit}" for digit in re.findall(r"\bn(\d)\b", text)}
    assert named <= set(blamed), f"an innocent node is named:\n{text}"
    return blamed
