"""Slurm's accounting beside a private cluster: MariaDB and slurmdbd, by hand.

The cluster comes up without accounting, since its controller wants slurmdbd first.
Then both servers are started on the head, and the controller again with accounting.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangstart.cluster import daemons, process
from gangstart.cluster.config import HEAD, MUNGE_SOCKET, SLURMCTLD_PORT
from gangstart.plugin.path import SYSTEM_PATH

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gangstart.cluster import Cluster

NEEDED = ("mariadbd", "mariadb-install-db")
NEEDED_IN_ROOT = ("slurmdbd", "sacct", "sacctmgr")
DBD_PORT = 6819
SECONDS = 45.0
LINES = (
    "AccountingStorageType=accounting_storage/slurmdbd",
    "AccountingStorageHost=head",
)


def missing(root: str = "") -> str | None:
    """What this machine, or the root of another release, lacks; None if nothing."""
    if os.getuid() != 0:
        return "needs root: MariaDB and slurmdbd run as the cluster's owner"
    path = SYSTEM_PATH
    found = [name for name in NEEDED if not shutil.which(name, path=path)]
    found += [n for n in NEEDED_IN_ROOT if not daemons.find_tool(n, path, root)]
    packages = "apt-get install slurmdbd slurm-wlm-mysql-plugin mariadb-server"
    return f"{', '.join(found)} not found: {packages}" if found else None


def until(ready: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Wait for something with a deadline."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.05)


@dataclass
class Accounting:
    """The two servers, from `start` to `stop`."""

    cluster: Cluster
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where MariaDB keeps its files."""
        return self.cluster.directory / "db"

    def start(self) -> None:
        """Bring both up and the controller up again with accounting."""
        self.folder.mkdir()
        self._database()
        self._slurmdbd()
        self._controller()

    def stop(self) -> None:
        """End both; the controller goes with its cluster."""
        for server in reversed(self.running):
            server.terminate()
        for server in reversed(self.running):
            end(server)

    def _environment(self) -> dict[str, str]:
        """What the servers see."""
        return {
            **daemons.environment(self.cluster.spec),
            "MYSQL_UNIX_PORT": str(self.folder / "socket"),
        }

    def _spawn(self, name: str, argv: list[str], *, on_head: bool = True) -> None:
        """Start a server; what it says goes to the cluster's log folder."""
        whole = self.cluster.argv(argv) if on_head else argv
        with (self.cluster.directory / "log" / f"{name}.err").open("ab") as said:
            server = subprocess.Popen(
                whole,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                text=True,
            )
        self.running.append(server)

    def _database(self) -> None:
        data = self.folder / "data"
        subprocess.run(
            [
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={data}",
                "--user=root",
                "--auth-root-authentication-method=socket",
                "--skip-test-db",
            ],
            env={"PATH": SYSTEM_PATH},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )
        socket = self.folder / "socket"
        mariadbd = shutil.which("mariadbd", path=SYSTEM_PATH) or "mariadbd"
        self._spawn(
            "mariadbd",
            [
                mariadbd,
                "--no-defaults",
                f"--datadir={data}",
                f"--socket={socket}",
                f"--pid-file={self.folder / 'pid'}",
                "--skip-networking",
                "--user=root",
                "--innodb-buffer-pool-size=32M",
                "--innodb-flush-log-at-trx-commit=2",
            ],
            on_head=False,
        )
        until(socket.exists, "MariaDB's socket")

    def _slurmdbd(self) -> None:
        conf = self.cluster.directory / "etc" / "slurmdbd.conf"
        conf.write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={MUNGE_SOCKET}\nDbdHost={HEAD}\n"
            f"DbdPort={DBD_PORT}\nSlurmUser=root\nPidFile=/run/slurmdbd.pid\n"
            f"LogFile={self.cluster.directory / 'log' / 'slurmdbd.log'}\n"
            "StorageType=accounting_storage/mysql\nStorageHost=localhost\n"
            "StorageUser=root\nStorageLoc=accounting\n"
        )
        conf.chmod(0o600)
        self._spawn("slurmdbd", ["slurmdbd", "-D"])
        until(lambda: self._listens("slurmdbd", DBD_PORT), "slurmdbd")

    def _listens(self, name: str, port: int) -> bool:
        """Whether a daemon on the head accepts connections."""
        found = self.cluster.node_pids(HEAD, name)
        return any(process.listening(pid, port) for pid in found)

    def _controller(self) -> None:
        """Start the controller again, with accounting."""
        conf = self.cluster.directory / "etc" / "slurm.conf"
        conf.write_text(conf.read_text() + "".join(f"{line}\n" for line in LINES))
        self._start_controller()

    def forget(self) -> None:
        """Let the controller forget all jobs, as it does of itself after MinJobAge."""
        self._start_controller("job_state", "job_state.old")

    def _start_controller(self, *forgotten: str) -> None:
        """Start the controller again, without some files of its state."""
        for pid in self.cluster.node_pids(HEAD, "slurmctld"):
            os.kill(pid, signal.SIGTERM)
        until(lambda: not self.cluster.node_pids(HEAD, "slurmctld"), "slurmctld's end")
        # From 24.11 on it holds a number that slurmdbd would have given.
        for name in ("clustername", *forgotten):
            (self.cluster.directory / "state" / name).unlink(missing_ok=True)
        self._spawn("slurmctld.again", ["slurmctld", "-D"])
        until(lambda: self._listens("slurmctld", SLURMCTLD_PORT), "slurmctld")
        until(self._registered, "the cluster in the accounting")
        until(
            lambda: set(self.cluster.node_states().values()) == {"idle"}, "idle nodes"
        )

    def _registered(self) -> bool:
        done = self.cluster.run(
            ["sacctmgr", "-nP", "show", "cluster", "format=Cluster,ControlHost"],
            env=self._environment(),
        )
        return any(row.count("|") and row.split("|")[1] for row in done.stdout.split())


def end(server: subprocess.Popen[str]) -> None:
    """Wait for a server that was told to end; kill it if it does not."""
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait(10)
