"""The cluster of docker-compose.yml, brought up once for the tests of this folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from repo import ROOT, text

from compose import machine

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

DOCUMENT = ROOT / "docs" / "compose.md"
COMMAND = re.compile(r"^docker compose .+", re.MULTILINE)
BUILT_WITHIN = 900
UP_WITHIN = 240


def documented() -> list[str]:
    """Every command of docs/compose.md, in its order."""
    blocks = re.findall(r"^```\n(.*?)^```", text(DOCUMENT), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in COMMAND.findall(block)]


@dataclass
class Stack:
    """The services, told what the document tells a person to type."""

    docker: machine.Docker
    project: str
    ran: set[str] = field(default_factory=set)

    def compose(
        self, *words: str, within: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run docker compose; exec without a terminal."""
        if words[0] == "exec":
            words = ("exec", "-T", *words[1:])
        argv = (*self.docker.compose, *words)
        return self.docker.run(*argv, within=within, check=check)

    def type(
        self, line: str, *, within: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run this line of the document, which has to be there."""
        assert line in documented(), f"docs/compose.md does not have: {line}"
        self.ran.add(line)
        words = shlex.split(line)[2:]
        return self.compose(*words, within=within, check=check)

    def containers(self) -> list[dict[str, Any]]:
        """What docker knows of each container of the project."""
        wanted = f"label=com.docker.compose.project={self.project}"
        listed = self.docker.run("docker", "ps", "-aq", "--filter", wanted).stdout
        if not listed:
            return []
        shown = self.docker.run("docker", "inspect", *listed.split()).stdout
        return list(json.loads(shown))

    def left(self) -> dict[str, list[str]]:
        """Containers, networks and volumes of the project, by kind."""
        wanted = f"label=com.docker.compose.project={self.project}"
        kinds = {"container": "-aq", "network": "-q", "volume": "-q"}
        return {
            kind: self.docker.run(
                "docker", kind, "ls", flag, "--filter", wanted
            ).stdout.split()
            for kind, flag in kinds.items()
        }


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def docker() -> Iterator[machine.Docker]:
    """A docker, or a skip that says why there is none."""
    yield from machine.docker()


@pytest.fixture(scope="session")
def stack(docker: machine.Docker) -> Iterator[Stack]:
    """Build the images, bring everything up as documented, and take it down."""
    project = f"gangstart-test-{os.getpid()}"
    docker.environment.update(
        COMPOSE_PROJECT_NAME=project,
        CLUSTER_NET=f"10.97.{os.getpid() % 250}",
        PROMETHEUS_PORT=str(free_port()),
    )
    made = Stack(docker, project)
    begun = time.monotonic()
    print(f"\nbase image: {machine.provide_base(docker)}", end="")
    print(f" ({time.monotonic() - begun:.0f} s)", end="")
    try:
        begun = time.monotonic()
        # The newer compose builds side by side by itself.
        side_by_side = ["--parallel"] if docker.compose == ("docker-compose",) else []
        made.compose("build", *side_by_side, within=BUILT_WITHIN)
        print(f", images built ({time.monotonic() - begun:.0f} s)", end="")
        begun = time.monotonic()
        made.type("docker compose up -d", within=UP_WITHIN)
        print(f", cluster up ({time.monotonic() - begun:.0f} s)")
        yield made
    finally:
        made.compose("down", "-v", "--rmi", "local", within=120)
