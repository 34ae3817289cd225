"""A docker to try docker-compose.yml with: the one that answers, or one of our own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
from repo import ROOT, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCKERFILE = ROOT / "compose" / "Dockerfile"
#: Own certificates of a machine: what is behind its proxy is signed with them.
CERTIFICATES = Path("/usr/local/share/ca-certificates")
MEMORY = Path("/dev/shm")  # noqa: S108  a base is some 200 MB, and disks are slow
#: Of our own dockerd: no bridge, no firewall rule and no sysctl of the machine's is
#: touched, so none is left. The containers reach each other, and the builds use the
#: machine's network.
UNTOUCHED = (
    "--bridge=none",
    "--iptables=false",
    "--ip6tables=false",
    "--ip-forward=false",
    "--ip-masq=false",
)
#: Whether bridged packets go through the machine's firewall, where one may be dropped.
BRIDGED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
STARTS_WITHIN = 60
PULLED_WITHIN = 120
MADE_WITHIN = 300


@dataclass(frozen=True)
class Docker:
    """A docker that answers, and how compose is called."""

    environment: dict[str, str]
    compose: tuple[str, ...]

    def run(
        self, *argv: str, within: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with this docker; with `check` a failure fails the test."""
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
        if check and done.returncode != 0:
            said = (done.stdout + done.stderr)[-6000:]
            pytest.fail(f"{' '.join(argv)} ended with {done.returncode}:\n{said}")
        return done


def until(what: str, within: float, holds: Callable[[], bool]) -> None:
    """Ask until it holds; after `within` seconds the test fails with `what`."""
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"after {within} s still not: {what}")
        Event().wait(0.5)


def environment() -> dict[str, str]:
    """Where the packages' docker is found first: another one may lack its plugins."""
    return {
        **os.environ,
        "PATH": f"/usr/bin:/usr/sbin:{os.environ['PATH']}",
        "DOCKER_BUILDKIT": "1",
        "COMPOSE_DOCKER_CLI_BUILD": "1",
    }


def works(env: dict[str, str], *argv: str) -> bool:
    """Whether the command exists and ends well."""
    if shutil.which(argv[0], path=env["PATH"]) is None:
        return False
    done = subprocess.run(
        argv, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode == 0


def compose_command(env: dict[str, str]) -> tuple[str, ...]:
    """`docker compose` where it is, else Debian 12's docker-compose; else skip."""
    for command in (("docker", "compose"), ("docker-compose",)):
        if works(env, *command, "version"):
            return command
    pytest.skip("no docker compose here: make compose installs it")


def docker() -> Iterator[Docker]:
    """The docker that answers, or a dockerd of our own that ends with the tests."""
    env = environment()
    compose = compose_command(env)
    if works(env, "docker", "info"):
        yield Docker(env, compose)
        return
    if os.getuid() != 0:
        pytest.skip("no docker answers, and only root can start dockerd")
    if shutil.which("dockerd", path=env["PATH"]) is None:
        pytest.skip(
            "neither a docker that answers nor dockerd: make compose installs it"
        )
    if firewalled(env):
        pytest.skip("this machine's firewall drops what containers send each other")
    folder = Path(tempfile.mkdtemp(prefix="gs-docker-", dir="/var/tmp"))
    try:
        yield from own_docker(env, compose, folder)
    finally:
        shutil.rmtree(folder)


def firewalled(env: dict[str, str]) -> bool:
    """Whether containers on one bridge would not reach each other."""
    if not BRIDGED.exists() or text(BRIDGED).strip() != "1":
        return False
    shown = subprocess.run(
        ["iptables", "-S", "FORWARD"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return "-P FORWARD DROP" in shown.stdout


def own_docker(
    env: dict[str, str], compose: tuple[str, ...], folder: Path
) -> Iterator[Docker]:
    """Start a dockerd that keeps everything in `folder`; skip if it cannot start."""
    socket = f"unix://{folder}/docker.sock"
    places = ("--data-root", "data", "--exec-root", "exec", "--pidfile", "docker.pid")
    options = [f"{folder}/{o}" if o[0] != "-" else o for o in places]
    options += ["--cgroup-parent", f"/{folder.name}", "--host", socket, *UNTOUCHED]
    log = folder / "dockerd.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            # It ends with us, even if we are killed.
            ["setpriv", "--pdeathsig", "TERM", "dockerd", *options],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as daemon,
    ):
        try:
            with_socket = {**env, "DOCKER_HOST": socket, "BUILD_NETWORK": "host"}
            wait_for(daemon, with_socket, log)
            yield Docker(with_socket, compose)
        finally:
            daemon.terminate()
            daemon.wait(60)
            remove_cgroups(folder.name)


def wait_for(daemon: subprocess.Popen[bytes], env: dict[str, str], log: Path) -> None:
    """Return when dockerd answers; skip, with its last words, when it does not."""
    deadline = time.monotonic() + STARTS_WITHIN
    while daemon.poll() is None and time.monotonic() < deadline:
        if works(env, "docker", "info"):
            return
        Event().wait(0.2)
    last = text(log).strip().rpartition("\n")[2]
    pytest.skip(f"dockerd cannot start on this machine: {last[-400:]}")


def remove_cgroups(name: str) -> None:
    """Remove the empty groups that dockerd leaves, in each hierarchy."""
    top = Path("/sys/fs/cgroup")
    for group in (top / name, *top.glob(f"*/{name}")):
        for inner in sorted(group.glob("**/"), reverse=True):
            inner.rmdir()


def base() -> str:
    """The image that the Dockerfile starts from."""
    first = next(s for s in text(DOCKERFILE).splitlines() if s.startswith("FROM "))
    return first.split()[1]


def provide_base(docker: Docker) -> str:
    """Have the base image: there, pulled, or made here. Returns which it was."""
    if docker.run("docker", "image", "inspect", base(), check=False).returncode == 0:
        return "was there"
    pull = ("docker", "pull", "--quiet", base())
    if docker.run(*pull, within=PULLED_WITHIN, check=False).returncode == 0:
        return "pulled"
    if shutil.which("mmdebstrap") is None:
        pytest.skip(f"{base()} cannot be pulled, nor made without mmdebstrap")
    make_base(docker)
    return "made by mmdebstrap: no registry could be reached"


def make_base(docker: Docker) -> None:
    """Make a Debian under the base's name, which trusts what this machine trusts."""
    argv = ["mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io"]
    argv += ['--aptopt=Acquire::Languages "none"']
    if CERTIFICATES.is_dir():
        argv += [f"--customize-hook=copy-in {CERTIFICATES} {CERTIFICATES.parent}"]
    argv += [base().partition(":")[2].partition("-")[0], "-"]
    env = docker.environment
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 1 << 30:
        env = {**env, "TMPDIR": str(MEMORY)}
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=said) as maker,
    ):
        subprocess.run(
            ["docker", "import", "-", base()],
            env=docker.environment,
            stdin=maker.stdout,
            capture_output=True,
            timeout=MADE_WITHIN,
            check=False,
        )
        if maker.wait(30) != 0:
            said.seek(0)
            pytest.fail(f"mmdebstrap made no {base()}: {said.read()[-2000:]!r}")
