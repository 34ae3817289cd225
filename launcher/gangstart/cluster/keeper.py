"""The keeper: builds a cluster, starts its daemons, then holds the namespaces open.

`gangstart cluster up` starts it in a fresh interpreter and reads its reports, one JSON
object per line, until "ready" or "error". From then on it only reaps: the daemons are
its children, and so is whatever they leave behind. `down` finds it by the state file,
or by its command line when `up` was killed before there was one.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from dataclasses import replace
from errno import EPERM
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangstart.cluster import daemons, kernel, process, space, state
from gangstart.cluster.config import HEAD, SLURMCTLD_PORT
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangstart.cluster.config import Spec
    from gangstart.cluster.state import State

MODULE = "gangstart.cluster.keeper"
POLL_SECONDS = 0.02
QUERY_POLL_SECONDS = 0.05
BASE_DEADLINE_SECONDS = 30.0
NODE_DEADLINE_SECONDS = 0.5
WAKE = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
REPORT = 1
DESCRIPTORS = 65536


def deadline_seconds(nodes: int) -> float:
    """How long a cluster of this size may take to come up."""
    return BASE_DEADLINE_SECONDS + NODE_DEADLINE_SECONDS * nodes


def main(arguments: Sequence[str]) -> int:
    """Build the cluster in the directory named, report, and keep it until TERM."""
    if os.fork():
        # `up` waits for this half only: the other one is nobody's child any more.
        return 0
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKE)
    current = state.read(Path(arguments[0]))
    if current is None:
        return 1
    keeper = Keeper(current)
    try:
        keeper.start()
    except GangstartError as error:
        report(error=error.message)
        return 1
    except OSError as error:
        report(error=explain(current.spec, error))
        return 1
    report(ready=True)
    os.dup2(0, REPORT)
    keeper.reap_until_told()
    return 0


def report(**fields: str | bool) -> None:
    """Tell `up` how far it is; a closed pipe means nobody waits any more."""
    os.write(REPORT, json.dumps(fields).encode() + b"\n")


def explain(spec: Spec, error: OSError) -> str:
    """Say what the system refused while the nodes were built, and what is needed."""
    if error.errno != EPERM:
        return f"cluster {spec.name}: {error.strerror or error}: {error.filename}"
    if spec.owner == "root":
        return (
            f"cluster {spec.name}: this root may not create namespaces "
            f"({error.filename}: {error.strerror}): in a container, it needs the "
            "capability SYS_ADMIN and NET_ADMIN (docker run --privileged)"
        )
    return (
        f"cluster {spec.name}: this kernel lets no ordinary user create namespaces "
        f"({error.filename}: {error.strerror}): run it as root, or allow it with "
        "sysctl kernel.unprivileged_userns_clone=1 (Debian) or "
        "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
    )


class Keeper:
    """The cluster as its keeper sees it: the open namespaces and the children."""

    def __init__(self, current: State) -> None:
        """Take over the state that `up` wrote."""
        self.state = current
        self.spec = current.spec
        self.tools = daemons.find_tools(self.spec.search_path, self.spec.root)
        self.children: dict[int, str] = {}
        self.end = time.monotonic() + deadline_seconds(self.spec.nodes)

    def start(self) -> None:
        """Build the nodes, start the daemons, and wait until every node is idle."""
        kernel.set_process_name("gangstart-keep")
        kernel.become_subreaper()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Not all that some machines allow: Slurm's daemons close every possible one.
        enough = min(most, DESCRIPTORS) if most >= 0 else DESCRIPTORS
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, most))
        own = os.getpid()
        self.save(keeper=own, keeper_start=process.start_time(own) or 0)
        report(progress="building the nodes")
        spaces = space.build(self.spec)
        self.save(spaces=spaces)
        space.enter({k: v for k, v in spaces[HEAD].items() if k != "user"})
        os.chdir("/")
        self.run(daemons.munged(self.spec, self.tools))
        controller = self.run(daemons.slurmctld(self.tools))
        self.wait("munged", daemons.munge_answers)
        self.wait("slurmctld", lambda: process.listening(controller, SLURMCTLD_PORT))
        for node in self.spec.node_names:
            self.run(daemons.slurmd(self.spec, self.tools, node))
        self.wait("the nodes", self.all_idle, QUERY_POLL_SECONDS)
        self.save(phase=state.UP)

    def save(self, **changes: Any) -> None:  # noqa: ANN401  State's own fields
        """Record what has changed, for the commands that come later."""
        self.state = replace(self.state, **changes)
        state.write(self.state)

    def run(self, daemon: daemons.Daemon) -> int:
        """Start one daemon and remember it."""
        held = {k: v for k, v in self.state.spaces[daemon.node].items() if k != "user"}
        pid = daemons.spawn(self.spec, held, daemon)
        self.children[pid] = daemon.name
        return pid

    def wait(
        self, what: str, ready: Callable[[], bool], poll_seconds: float = POLL_SECONDS
    ) -> None:
        """Wait until something is ready; a daemon that ends meanwhile ends the wait."""
        while not ready():
            for pid, name in self.children.items():
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    code = os.waitstatus_to_exitcode(status)
                    raise GangstartError(
                        f"cluster {self.spec.name}: {name} ended with code {code}: "
                        f"{daemons.last_words(self.spec, name)}"
                    )
            if time.monotonic() > self.end:
                raise GangstartError(
                    f"cluster {self.spec.name}: {what} not ready after "
                    f"{deadline_seconds(self.spec.nodes):.0f} s: "
                    f"{daemons.last_words(self.spec, 'slurmctld')}"
                )
            time.sleep(poll_seconds)

    def all_idle(self) -> bool:
        """Ask the controller whether every node has registered, and tell the user."""
        rows = daemons.query(self.spec, self.tools["sinfo"], "-o", "%D %T")
        idle = daemons.count_idle(rows or [])
        report(progress=f"{idle} of {self.spec.nodes} nodes idle")
        return idle == self.spec.nodes

    @staticmethod
    def reap_until_told() -> None:
        """Collect the children that end, until a signal other than theirs comes."""
        told: int = signal.SIGCHLD
        while told == signal.SIGCHLD:
            told = signal.sigwait(WAKE)
            while True:
                try:
                    pid, _ = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
