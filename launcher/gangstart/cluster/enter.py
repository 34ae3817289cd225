"""Runs a command on a node of a cluster, in place of this process."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gangstart import job
from gangstart.cluster import daemons, process, space, state
from gangstart.cluster.config import HEAD
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.cluster.state import State

MODULE = "gangstart.cluster.enter"
EXIT_NOT_FOUND = 127
EXIT_NOT_EXECUTABLE = 126
#: What a job of another Slurm leaves in the environment, and would mislead srun here.
FOREIGN = ("SLURM_", "SLURMD_", "SBATCH_", "SALLOC_", "SRUN_", "PMI_", "PMIX_")
KEPT = "SLURM_GANG_"


def main(arguments: Sequence[str]) -> int:
    """DIR NODE USER COMMAND…: for callers that need it as a child process."""
    directory, node, user, *command = arguments
    try:
        execute(state.require(Path(directory)), node, user, command)
    except GangstartError as error:
        sys.stderr.write(f"gangstart: {error.message}\n")
        return error.exit_code


def execute(current: State, node: str, user: str, command: list[str]) -> NoReturn:
    """Become `command` on a node, as `user` if one is named."""
    name = current.spec.name
    env = environment(job.environ(), current.spec.path("etc", "slurm.conf"))
    move(current, node)
    if user:
        env |= become_user(user)
    if not os.access(env["SLURM_CONF"], os.R_OK, effective_ids=True):
        raise GangstartError(
            f"cluster {name}: {user or 'this user'} cannot read {env['SLURM_CONF']}: "
            "a directory above it is closed: use another --dir"
        )
    daemons.restore_signals()
    try:
        os.execvpe(command[0], command, env)  # noqa: S606  becoming it is the point
    except FileNotFoundError:
        raise GangstartError(
            f"cluster {name}: command {command[0]!r} not found on {node}",
            exit_code=EXIT_NOT_FOUND,
        ) from None
    except OSError as error:
        raise GangstartError(
            f"cluster {name}: cannot run {command[0]!r} on {node}: {error.strerror}",
            exit_code=EXIT_NOT_EXECUTABLE,
        ) from None


def environment(outer: Mapping[str, str], slurm_conf: str) -> dict[str, str]:
    """Return the caller's environment, less that of a Slurm job around it."""
    within_job = "SLURM_JOB_ID" in outer
    env = {
        key: value
        for key, value in outer.items()
        if not (within_job and key.startswith(FOREIGN) and not key.startswith(KEPT))
    }
    return env | {"SLURM_CONF": slurm_conf}


def move(current: State, node: str) -> None:
    """Move this process to a node; it keeps its directory where the node has it."""
    spec = current.spec
    if node not in {HEAD, *spec.node_names}:
        raise GangstartError(
            f"cluster {spec.name}: there is no node {node!r}: {HEAD} or "
            f"{spec.node_range}",
            exit_code=2,
        )
    if not process.keeper_alive(current) or not current.spaces:
        raise GangstartError(
            f"cluster {spec.name} is not running (its keeper has ended, or the machine "
            f"restarted): gangstart cluster down --name {spec.name}, then up again"
        )
    directory = working_directory()
    space.enter(space.reopen(current, node))
    try:
        os.chdir(directory)
    except OSError:
        os.chdir("/")
        sys.stderr.write(
            f"gangstart: cluster {spec.name}: {node} has no {directory} (its /tmp and "
            "/run are its own): the command starts in /\n"
        )


def working_directory() -> str:
    """Return the current directory, or / if it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "/"


def become_user(user: str) -> dict[str, str]:
    """Drop to an ordinary user for good; return what the environment then needs."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise GangstartError(
            f"cluster: there is no user {user!r} on this machine", exit_code=2
        ) from None
    if os.geteuid() not in {0, entry.pw_uid}:
        raise GangstartError(
            f"cluster: only root may run a command as {user}: leave out --user",
            exit_code=2,
        )
    if os.geteuid() == 0:
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    names = {"USER": user, "LOGNAME": user}
    return names | {"HOME": entry.pw_dir, "SHELL": entry.pw_shell}
