"""A cluster as a Python object: what the command line does, for test fixtures."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangstart import job
from gangstart.cluster import cable, daemons, enter, lifecycle, process, removal
from gangstart.cluster.config import HEAD, HEAD_ADDRESS, SLURMD_PORT, Spec, address
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gangstart.cluster.state import State

POLL_SECONDS = 0.02
START_SECONDS = 15.0
QUERY_SECONDS = 15.0
SLURMD = "slurmd"
#: What `node VERB` does to the node's slurmd, next to start.
SIGNALS = {
    "stop": signal.SIGSTOP,
    "cont": signal.SIGCONT,
    "kill": signal.SIGKILL,
}


class Cluster:
    """A cluster that is up. Every method may raise GangstartError with a sentence."""

    def __init__(self, name: str = "default") -> None:
        """Find the cluster of this name, which must exist."""
        self.state: State = lifecycle.existing(name)
        self.spec: Spec = self.state.spec

    @classmethod
    def up(
        cls, spec: Spec | None = None, progress: Callable[[str], None] | None = None
    ) -> Cluster:
        """Bring a cluster up and return it; on failure nothing of it is left.

        `progress` is told now and then what is being waited for.
        """
        spec = spec or Spec(plugin=lifecycle.built_plugin())
        lifecycle.up(spec, progress or silent)
        return cls(spec.name)

    @property
    def directory(self) -> Path:
        """Where its files are: etc, log, archive, node/NODE/run and so on."""
        return Path(self.spec.directory)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the compute nodes."""
        return self.spec.node_names

    def down(self) -> None:
        """Take the cluster down; it is no error if it is down already."""
        removal.down(self.spec.name)

    def argv(
        self, command: Sequence[str], *, node: str = HEAD, user: str = ""
    ) -> list[str]:
        """Argument vector that runs `command` on a node, from outside the cluster."""
        place = (self.spec.directory, node, user)
        return job.module_argv(enter.MODULE, *place, *command)

    def run(
        self,
        command: Sequence[str],
        *,
        node: str = HEAD,
        user: str = "",
        timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its output comes as text, its code is not checked.

        Raises subprocess.TimeoutExpired, having killed the command, after `timeout`.
        """
        return subprocess.run(
            self.argv(command, node=node, user=user),
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def popen(
        self,
        command: Sequence[str],
        *,
        node: str = HEAD,
        user: str = "",
        **options: Any,  # noqa: ANN401  Popen's
    ) -> subprocess.Popen[str]:
        """Start a command; `options` are those of subprocess.Popen. Its pid is real."""
        argv = self.argv(command, node=node, user=user)
        return subprocess.Popen(argv, text=True, **options)

    def pids(self) -> dict[int, str]:
        """Map every process in the cluster (pids of the machine) to its node."""
        return process.members(self.state)

    def node_pids(self, node: str, name: str | None = None) -> list[int]:
        """List a node's processes (pids of the machine), or those called `name`."""
        return process.of_node(self.state, self.check_node(node), name)

    def check_node(self, node: str) -> str:
        """Return the name of a node of this cluster, or say which there are."""
        if node == HEAD or node in self.nodes:
            return node
        raise GangstartError(
            f"cluster {self.spec.name}: there is no node {node!r}: "
            f"{self.spec.node_range}",
            exit_code=2,
        )

    def signal_slurmd(self, node: str, verb: str) -> None:
        """Do stop, cont or kill to a node's slurmd; its job steps are left alone."""
        found = self.node_pids(node, SLURMD)
        if not found:
            raise GangstartError(
                f"cluster {self.spec.name}: no slurmd runs on {node}: gangstart "
                f"cluster node start {node} --name {self.spec.name}"
            )
        process.send(found, lambda: self.node_pids(node, SLURMD), SIGNALS[verb])
        if verb == "kill":
            self._wait(
                f"slurmd of {node} to end", lambda: not self.node_pids(node, SLURMD)
            )

    def start_slurmd(self, node: str) -> None:
        """Start a node's slurmd again and wait until the controller hears it."""
        if self.node_pids(node, SLURMD):
            raise GangstartError(
                f"cluster {self.spec.name}: slurmd runs on {node} already"
            )
        tools = daemons.find_tools(self.spec.search_path, self.spec.root)
        daemon = daemons.slurmd(self.spec, tools, node)
        # Without -D it puts itself into the background, out of this process's hands.
        argv = [word for word in daemon.argv if word != "-D"]
        log = self.directory / "log" / f"{daemon.name}.err"
        with log.open("ab") as errors:
            code = subprocess.run(
                self.argv(argv, node=node),
                env=daemons.environment(self.spec),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                timeout=START_SECONDS,
                start_new_session=True,
                check=False,
            ).returncode
        if code != 0:
            words = daemons.last_words(self.spec, daemon.name)
            raise GangstartError(
                f"cluster {self.spec.name}: slurmd of {node} ended with code {code}: "
                f"{words}"
            )
        self._wait(f"slurmd of {node} to listen", lambda: self._listens(node))
        self._wait(f"{node} to answer", lambda: self._answers(node))

    def _listens(self, node: str) -> bool:
        """Whether the node's slurmd accepts connections."""
        found = self.node_pids(node, SLURMD)
        return any(process.listening(pid, SLURMD_PORT) for pid in found)

    def _answers(self, node: str) -> bool:
        """Whether the controller counts the node as usable and responding."""
        told = self.node_states().get(node, "unknown")
        return not told.endswith("*") and told not in {"unknown", "down"}

    def set_cable(self, node: str, *, up: bool) -> None:
        """Plug a node's network cable in or out, at the switch's end."""
        if self.check_node(node) == HEAD:
            raise GangstartError(
                f"cluster {self.spec.name}: {HEAD} has no cable of its own: "
                f"{self.spec.node_range}",
                exit_code=2,
            )
        argv = job.module_argv(
            cable.MODULE, self.spec.directory, node, "up" if up else "down"
        )
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
        if done.returncode != 0:
            raise GangstartError(done.stderr.strip())

    def node_states(self) -> dict[str, str]:
        """Node -> its state as the controller sees it; empty if it does not answer."""
        try:
            done = self.run(
                ["sinfo", "-h", "-N", "-o", "%N %T"],
                timeout=QUERY_SECONDS,
                env=daemons.environment(self.spec),
            )
        except subprocess.TimeoutExpired:
            return {}
        pairs = (row.partition(" ") for row in done.stdout.splitlines())
        return {name: told.strip() for name, _, told in pairs}

    def status(self) -> dict[str, Any]:
        """Everything `gangstart cluster status --json` shows."""
        running = process.keeper_alive(self.state)
        states = self.node_states() if running and self.state.spaces else {}
        by_name: dict[tuple[str, str], list[int]] = {}
        for pid, node in self.pids().items():
            by_name.setdefault((node, process.command_name(pid)), []).append(pid)
        rows = [
            {
                "name": node,
                "address": address(index),
                "state": states.get(node, "unknown"),
                "slurmd_pid": min(by_name.get((node, SLURMD), []), default=None),
            }
            for index, node in enumerate(self.nodes, 1)
        ]
        return {
            "name": self.spec.name,
            "phase": self.state.phase if running else "ended",
            "directory": self.spec.directory,
            "head": {
                "name": HEAD,
                "address": HEAD_ADDRESS,
                "keeper_pid": self.state.keeper if running else None,
                **{
                    f"{name}_pid": min(by_name.get((HEAD, name), []), default=None)
                    for name in ("munged", "slurmctld")
                },
            },
            "nodes": rows,
        }

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        """Wait for something that takes a moment, with a deadline."""
        end = time.monotonic() + START_SECONDS
        while not ready():
            if time.monotonic() > end:
                raise GangstartError(
                    f"cluster {self.spec.name}: waited {START_SECONDS:.0f} s in vain "
                    f"for {what}"
                )
            time.sleep(POLL_SECONDS)


def silent(_text: str) -> None:
    """Progress nobody wants to see."""
