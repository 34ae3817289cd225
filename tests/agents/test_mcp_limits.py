"""gangstart mcp when something hangs, ends, or talks nonsense: the real process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from agents.agent import Site, agent, command
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from triage.source.fakeprometheus import serve

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from mcp_types import CallToolResult

NOT_A_NUMBER = (
    b'{"jsonrpc":"2.0","id":"nan","method":"tools/call","params":'
    b'{"name":"triage","arguments":{"job":"7877","deadline_s":NaN}}}'
)
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.job("7877")
    return made


def until(ready: Callable[[], bool], what: str) -> None:
    """Wait for something with a deadline."""
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return told.rpartition(")")[2].split()[0] not in "ZX"


def hanging(site: Site) -> list[int]:
    """Numbers of sacct processes that hang."""
    path = site.folder / "hanging"
    return [int(one) for one in path.read_text().split()] if path.exists() else []


class Wire:
    """The server without a client: lines in, lines out."""

    def __init__(self, site: Site) -> None:
        """Start it and say hello."""
        self.process = subprocess.Popen(
            command(*site.options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=site.env,
        )
        self.number = 0
        self.ask("initialize", HELLO)
        self.answer()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, told: dict[str, Any] | bytes) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        raw = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> int:
        """Send a request."""
        self.number += 1
        told = {"jsonrpc": "2.0", "id": self.number, "method": method}
        self.send(told | {"params": params})
        return self.number

    def call(self, name: str, **given: Any) -> int:  # noqa: ANN401  JSON
        """Send a call of a tool."""
        return self.ask("tools/call", {"name": name, "arguments": given})

    def answer(self) -> dict[str, Any]:
        """Read one line: nothing else may be on stdout."""
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert told["jsonrpc"] == "2.0"
        return told

    def ended(self) -> tuple[int, bytes, bytes]:
        """Wait for its end: its code, and the rest of what it said."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@contextlib.contextmanager
def wire(site: Site) -> Iterator[Wire]:
    made = Wire(site)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.communicate()


def silent(link: socket.socket, _raw: bytes) -> None:
    link.recv(1)  # until the other side gives up


def test_a_prometheus_that_never_answers_costs_no_more_than_the_deadline(
    site: Site,
) -> None:
    with serve(silent) as (url, requests), agent(site, "--prometheus", url) as asked:
        begun = time.monotonic()
        said = asked.refused("query_metrics", promql="up", deadline_s=1)
        named = asked.refused(
            "query_metrics", nodes=["n1"], quantities=["load1"], deadline_s=1
        )
        verdict = asked.told("triage", job="7877", deadline_s=10)
        took = time.monotonic() - begun

    assert requests
    assert said.startswith(f"{url}: it did not answer within")
    assert named.startswith(f"{url}: it did not answer within")
    assert verdict["root_cause"] == "APP_EXCEPTION"
    (state,) = [one for one in verdict["sources"] if one["name"] == "prometheus"]
    assert state["outcome"] == "unreachable"
    assert took < 60


def test_an_accounting_that_hangs_costs_no_answer(site: Site) -> None:
    (site.folder / "hang").touch()
    with agent(site) as asked:
        told = asked.told("triage", job="7877", deadline_s=12)
        lines = asked.told("read_log_window", job="7877", deadline_s=12)

    assert told["root_cause"] == "APP_EXCEPTION"
    assert lines["files"]
    assert any("did not answer" in one["detail"] for one in told["sources"])


def test_calls_at_once_do_not_mix(site: Site) -> None:
    jobs = [str(number) for number in range(8000, 8006)]
    for number in jobs:
        site.job(number, f"[rank1]: KeyError: 'k{number}'\n" + "filler\n" * 200_000)
    answers: dict[str, CallToolResult] = {}

    with agent(site) as asked:

        async def all_at_once() -> None:
            async def one(number: str) -> None:
                answers[number] = await asked.session.call_tool(
                    "triage", {"job": number, "deadline_s": 60}
                )

            async with anyio.create_task_group() as group:
                for number in jobs:
                    group.start_soon(one, number)

        asked.portal.call(all_at_once)

    for number in jobs:
        told = answers[number].structured_content
        assert told["job"] == number
        assert f"k{number}" in told["sentence"]


def test_a_call_that_is_cancelled_does_not_hold_up_the_next(site: Site) -> None:
    (site.folder / "hang").touch()
    with wire(site) as line:
        first = line.call("triage", job="7877", deadline_s=60)
        until(lambda: bool(hanging(site)), "sacct")
        (site.folder / "hang").unlink()
        cancel = {"requestId": first, "reason": "changed my mind"}
        line.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}
        )
        second = line.call("report", job="1")

        told = line.answer()

        assert told["id"] == second
        assert told["result"]["isError"] is True


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "SIGINT"])
def test_it_ends_at_once_and_leaves_nothing(site: Site, how: str) -> None:
    (site.folder / "hang").touch()
    with wire(site) as line:
        line.call("triage", job="7877", deadline_s=100)
        until(lambda: bool(hanging(site)), "sacct")
        begun = time.monotonic()
        if how == "end of stdin":
            assert line.process.stdin is not None
            line.process.stdin.close()
            line.process.stdin = None
        else:
            line.process.send_signal(getattr(signal, how))
        code, out, err = line.ended()

    assert code == {"SIGINT": 130}.get(how, 0)
    assert err == b""
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    assert time.monotonic() - begun < 30
    until(lambda: not any(map(alive, hanging(site))), "the end of sacct")


def test_a_client_that_no_longer_listens_leaves_no_traceback(site: Site) -> None:
    with wire(site) as line:
        assert line.process.stdout is not None
        line.process.stdout.close()
        line.process.stdout = None
        line.call("triage", job="7877")
        code, _, err = line.ended()

    assert (code, err) == (0, b"")


def test_a_client_of_the_newest_protocol_gets_the_same(site: Site) -> None:
    argv = command(*site.options)
    server = StdioServerParameters(command=argv[0], args=argv[1:], env=site.env)

    async def ask() -> tuple[str, CallToolResult]:
        async with Client(stdio_client(server)) as client:
            done = await client.call_tool("triage", {"job": "7877"})
            return client.protocol_version, done

    version, done = anyio.run(ask)

    assert version > HELLO["protocolVersion"]
    assert done.structured_content["root_cause"] == "APP_EXCEPTION"


def test_nonsense_is_answered_or_passed_over(site: Site) -> None:
    with wire(site) as line:
        for raw in (b"hello", b"{}", b"[1,2]", b"\xff\xfe\x00", b'{"jsonrpc":"2.0"}'):
            line.send(raw)
        number = line.ask("tools/list", {})
        told = line.answer()
        while told.get("id") != number:
            assert "error" in told
            told = line.answer()
        assert len(told["result"]["tools"]) == 6
        line.send(NOT_A_NUMBER)
        told = line.answer()
        assert told["id"] == "nan"
        assert "error" in told or told["result"]["isError"] is True
        assert line.process.stdin is not None
        line.process.stdin.close()
        line.process.stdin = None
        code, _, err = line.ended()

    assert code == 0
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise ImportError('none')", "has none"),
        ("__version__ = 'old'", "has none"),
    ],
)
def test_without_the_sdk_it_says_how_to_get_it(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text(text)
    root = Path(__file__).resolve().parents[2] / "launcher"
    done = subprocess.run(
        [sys.executable, "-m", "gangstart", "mcp"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.defpath, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"},
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("gangstart: mcp: this needs the MCP Python SDK")
    assert done.stderr.endswith("pip install 'gangstart[mcp]'\n")
    assert done.stderr.count("\n") == 1
    assert why in done.stderr or "has mcp" in done.stderr


def test_options_that_cannot_be_meant_are_one_sentence(tmp_path: Path) -> None:
    for options, why in (
        (["--prometheus", "ftp://x"], "is no address"),
        (["--archive", str(tmp_path / "none")], "is no folder"),
        (["--json"], "unrecognized arguments: --json"),
    ):
        done = subprocess.run(
            command(*options),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
        assert done.stderr.count("\n") == 1
