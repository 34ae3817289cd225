"""What the tests of `gangstart cluster` share: calling it, and what it left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import slurmroot
from gangstart.cluster import process, state

if TYPE_CHECKING:
    from collections.abc import Callable


PRIVATE = ("/tmp", "/dev/shm", "/run", "/run/gangstart")  # noqa: S108  what is tested
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
EMPTY_PLUGIN = """\
#include <stddef.h>
#include <slurm/spank.h>
SPANK_PLUGIN(empty, 1)
static int given(int v, const char *a, int r) { (void)v; (void)a; (void)r; return 0; }
struct spank_option spank_options[] = {
    {"empty-flag", 0, "An option nobody needs", 0, 0, given}, SPANK_OPTIONS_TABLE_END};
int slurm_spank_init(spank_t s, int ac, char **av)
{
    (void)s;
    for (int i = 0; i < ac; i++)
        slurm_info("empty plugin got %s", av[i]);
    return 0;
}
"""


COMMAND = (sys.executable, "-m", "gangstart", "cluster")


def tool(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `gangstart cluster …` as a user would, in a pipe."""
    chosen = slurmroot.options() if arguments[0] == "up" else []
    return subprocess.run(
        [*COMMAND, *arguments, *chosen],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def start_up(name: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """Begin `gangstart cluster up` without waiting for it.

    Signals are as a shell in a terminal has them: one in the background ignores SIGINT.
    """
    plain = ["env", "--default-signal"]
    return subprocess.Popen(
        [*plain, *COMMAND, "up", "--name", name, *slurmroot.options()],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def mounts() -> set[str]:
    """Every mount this process can see."""
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def named_namespaces() -> list[str]:
    """The network namespaces with a name."""
    folder = Path("/run/netns")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def traces(directory: str) -> list[str]:
    """What a cluster has left: processes that know of its directory, and files."""
    found = [directory] if Path(directory).exists() else []
    for pid in process.pids():
        for name in ("cmdline", "environ"):
            try:
                text = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            if f"{directory}/".encode() in text or f"{directory}\0".encode() in text:
                found.append(f"{pid} {process.command_name(pid)}")
    return found


def until(ready: Callable[[], bool], what: str) -> None:
    """Wait for something with a deadline."""
    end = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def place(name: str) -> str:
    """Directory of a cluster in the default place."""
    return str(state.base() / name)
