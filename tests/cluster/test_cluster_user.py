"""`gangstart cluster` without root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
import pytest
import slurmroot
from clustertool import (
    traces,
)
from gangstart.cluster import process

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster


@pytest.fixture
def ordinary_user() -> Iterator[str]:
    """A user made for the test, with a home, and removed after it."""
    if os.getuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("needs root and useradd to make an ordinary user")
    user = f"gs{os.getpid()}"
    subprocess.run(["useradd", "-m", user], check=True, timeout=30)
    yield user
    subprocess.run(
        ["userdel", "-r", user], check=True, timeout=30, stderr=subprocess.DEVNULL
    )


def test_an_ordinary_user_has_a_cluster_too(ordinary_user: str, possible: None) -> None:  # noqa: ARG001  it skips
    if not slurmroot.own():
        pytest.skip("another root is for root only")
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip(f"needs a Python every user may run: {python}")
    allowed = subprocess.run(
        ["unshare", "-Urn", "true"], user=ordinary_user, check=False, timeout=30
    )
    if allowed.returncode != 0:
        pytest.skip("this kernel lets no ordinary user create namespaces")
    entry = pwd.getpwnam(ordinary_user)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(
            Path(gangstart.__file__).parent,
            Path(folder, "gangstart"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True, timeout=30)

        def as_user(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [python, "-m", "gangstart", "cluster", *arguments],
                user=entry.pw_uid,
                group=entry.pw_gid,
                extra_groups=[],
                cwd=entry.pw_dir,
                env={
                    "HOME": entry.pw_dir,
                    "PATH": "/usr/bin:/bin",
                    "PYTHONPATH": folder,
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

        shown = as_user("up", "--no-plugin")
        assert (shown.returncode, shown.stderr) == (0, "")
        ran = as_user(
            "run", "--", "srun", "-N4", "sh", "-c", "echo $(id -un) $(hostname)"
        )
        assert sorted(ran.stdout.splitlines()) == [
            f"{ordinary_user} n{i}" for i in (1, 2, 3, 4)
        ]
        assert as_user("node", "kill", "n2").returncode == 0
        assert as_user("node", "start", "n2").returncode == 0
        assert as_user("link", "down", "n3").returncode == 0
        assert as_user("link", "up", "n3").returncode == 0
        other = as_user("run", "--user", "root", "--", "id")
        assert "only root may run a command as root" in other.stderr
        closed = as_user(
            "run", "--", "sh", "-c", "mkdir -p ~/../x; mkdir /tmp/a; chmod 0 /tmp/a"
        )
        assert closed.returncode == 0
        assert as_user("down").stdout == "cluster default: down\n"
    left = f"{entry.pw_dir}/.local/state/gangstart"
    assert traces(left) == []
    # The dead ones, whom this machine's init has yet to bury, do not count.
    alive = [p for p in process.pids() if process.start_time(p) is not None]
    assert [p for p in alive if owner(p) == entry.pw_uid] == []


def owner(pid: int) -> int | None:
    """User id of a process."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except FileNotFoundError:
        return None
