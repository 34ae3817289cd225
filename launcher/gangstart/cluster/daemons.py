"""The daemons of a cluster: which programs, with which arguments, and when ready."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from gangstart import job
from gangstart.cluster import newroot, space
from gangstart.cluster.config import HEAD, MUNGE_SOCKET, parse_release
from gangstart.errors import GangstartError
from gangstart.plugin.path import SYSTEM_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gangstart.cluster.config import Spec
    from gangstart.plugin.recipe import Line

#: Program -> the Debian package it comes in.
TOOLS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "sinfo": "slurm-client",
    "munged": "munge",
}
#: srun and the daemons load their plugins from here; Debian ships them apart.
PACKAGES = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
EXIT_NO_EXEC = 127
ROOTS_HINT = "name a folder that holds a whole Slurm (make roots prints some)"
QUERY_SECONDS = 10.0


class Daemon(NamedTuple):
    """One program to run on one node; its stderr goes to log/NAME.err."""

    name: str
    node: str
    argv: tuple[str, ...]


def find_tools(path: str, root: str = "") -> dict[str, str]:
    """Full path of every program a cluster needs, or the line that installs them.

    With another root, the paths are as seen in it.
    """
    found = {tool: find_tool(tool, path, root) for tool in TOOLS}
    missing = [tool for tool, where in found.items() if where is None]
    if missing:
        inside = f" in {root}" if root else ""
        raise GangstartError(
            f"cluster: {', '.join(missing)} not found{inside}: "
            + (ROOTS_HINT if root else f"apt-get install {PACKAGES}")
        )
    return {tool: where for tool, where in found.items() if where is not None}


def find_tool(tool: str, path: str, root: str) -> str | None:
    """Full path of one program, None if there is none.

    A link in another root may point to where only that root has something.
    """
    if not root:
        return shutil.which(tool, path=path)
    places = (f"{folder}/{tool}" for folder in SYSTEM_PATH.split(":"))
    return next((place for place in places if os.path.lexists(root + place)), None)


def release(slurmd: str, root: str = "") -> Line:
    """Ask slurmd for its release line."""
    ask = [slurmd, "-V"]
    try:
        done = subprocess.run(
            job.module_argv(newroot.MODULE, root, *ask) if root else ask,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=QUERY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GangstartError(f"cluster: {slurmd} -V fails: {error}") from None
    if done.returncode != 0:
        raise GangstartError(
            f"cluster: {root}{slurmd} -V fails: {done.stderr.strip() or 'no output'}"
        )
    return parse_release(done.stdout)


def environment(spec: Spec) -> dict[str, str]:
    """Return what the daemons see: nothing of the caller's environment."""
    return {
        "PATH": SYSTEM_PATH,
        "SLURM_CONF": spec.path("etc", "slurm.conf"),
        "LANG": "C.UTF-8",
    }


def munged(spec: Spec, tools: Mapping[str, str]) -> Daemon:
    """Describe the one munged for all nodes, with its own key and socket."""
    # --force: it would otherwise want every directory above its files to be root's.
    return Daemon(
        "munged",
        HEAD,
        (
            tools["munged"],
            "--foreground",
            "--force",
            f"--socket={MUNGE_SOCKET}",
            f"--key-file={spec.path('key', 'munge.key')}",
            f"--seed-file={spec.path('key', 'munge.seed')}",
            f"--log-file={spec.path('log', 'munged.log')}",
            "--pid-file=/run/munged.pid",
        ),
    )


def slurmctld(tools: Mapping[str, str]) -> Daemon:
    """Describe the controller, on the head."""
    return Daemon("slurmctld", HEAD, (tools["slurmctld"], "-D"))


def slurmd(spec: Spec, tools: Mapping[str, str], node: str) -> Daemon:
    """Describe the node daemon of one node."""
    argv = (tools["slurmd"], "-D", "-N", node, *spec.slurmd_args)
    return Daemon(f"slurmd.{node}", node, argv)


def spawn(spec: Spec, held: Mapping[str, int], daemon: Daemon) -> int:
    """Start a daemon in its node's namespaces, detached; return its pid.

    For the keeper only: it forks, and so wants a process with a single thread.
    """
    log = os.open(
        spec.path("log", f"{daemon.name}.err"),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
        0o644,
    )
    pid = os.fork()
    if pid == 0:
        become(spec, held, daemon, log)
    os.close(log)
    return pid


def become(spec: Spec, held: Mapping[str, int], daemon: Daemon, log: int) -> NoReturn:
    """In the child: leave everything of the keeper behind and run the daemon."""
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        space.enter(held)
        restore_signals()
        os.execve(daemon.argv[0], daemon.argv, environment(spec))  # noqa: S606  no shell
    except OSError as error:
        os.write(2, f"error: {error}\n".encode())
    finally:
        os._exit(EXIT_NO_EXEC)


def restore_signals() -> None:
    """Undo what Python, and the keeper, changed for themselves."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def munge_answers() -> bool:
    """Whether munged accepts connections; call it on a node."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(MUNGE_SOCKET) == 0


def query(spec: Spec, sinfo: str, *arguments: str) -> list[str] | None:
    """Lines of sinfo, called on the head; None while the controller cannot answer."""
    try:
        done = subprocess.run(
            [sinfo, "-h", *arguments],
            env=environment(spec),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=QUERY_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def count_idle(rows: Iterable[str]) -> int:
    """How many nodes sinfo -o '%D %T' shows as idle and answering."""
    pairs = (row.split() for row in rows)
    return sum(int(count) for count, state in pairs if state == "idle")


def last_words(spec: Spec, name: str) -> str:
    """Find the line a daemon ended with: its last error, or else its last line."""
    for suffix in ("err", "log"):
        path = Path(spec.path("log", f"{name}.{suffix}"))
        rows = path.read_text(errors="replace").split("\n") if path.exists() else []
        rows = [row.strip() for row in rows if row.strip()]
        errors = [row for row in rows if "error:" in row or "fatal:" in row]
        if rows:
            return (errors or rows)[-1]
    return "it left no message"
