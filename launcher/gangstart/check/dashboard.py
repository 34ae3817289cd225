"""Dashboards that anybody on the network can open. Decides only.

A port alone proves nothing: what counts is the program that listens.
To add one: a row in DASHBOARDS, and a line in tests/check/test_dashboard.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from gangstart.check import catalogue
from gangstart.check.result import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangstart.check.listener import Listener
    from gangstart.check.result import Finding

HEAD_WORDS = 2
HEAD_CHARS = 1000
INTERPRETER = re.compile(r"(^|/)(python[\d.]*|sh|bash|node)$")
SERVERS = re.compile(r"(^|/)(gunicorn|uvicorn|waitress-serve|python[\d.]*)(:|$)")
APP = re.compile(r"[a-z_][\w.]*:[a-z_]\w*")
RUNS_CODE = "whoever reaches it can run code as you"
SHOWS = "whoever reaches it sees your runs"
USES = "whoever reaches it can use your GPUs"
SHELL = "whoever reaches it has a shell as you"


@dataclass(frozen=True)
class Dashboard:
    """A program with a page that asks for no password."""

    name: str
    command: re.Pattern[str]
    risk: str
    loopback: str  # the setting that keeps it on this node
    ports: tuple[range, ...] = ()  # of several listeners only these, () = all
    guarded: re.Pattern[str] | None = None  # arguments that mean it asks after all
    open_if: re.Pattern[str] | None = None  # it asks unless these are there


def row(name: str, command: str, risk: str, loopback: str, *ports: range) -> Dashboard:
    """Make a row of the table."""
    shape = rf"(?<![\w.-])(?:{command})(?![\w-])"
    return Dashboard(name, re.compile(shape, re.IGNORECASE), risk, loopback, ports)


def one(port: int, count: int = 1) -> range:
    """Return a port, or several: programs take the next one if it is taken."""
    return range(port, port + count)


DASHBOARDS = (
    row(
        "Ray",
        r"ray/dashboard/\w+\.py|ray-dashboard\S*|ray::Dashboard\w*|ray start",
        RUNS_CODE,
        "ray start --dashboard-host=127.0.0.1",
        one(8265, 5),
    ),
    row("TensorBoard", r"tensorboard(\.main)?", SHOWS, "--host 127.0.0.1"),
    Dashboard(
        "Jupyter",
        re.compile(r"(?<![\w.-])jupyter(?!-?client)[\w-]*(?![\w])", re.IGNORECASE),
        RUNS_CODE,
        "--ip=127.0.0.1, and leave its token on",
        open_if=re.compile(r"""\.?token=(?:''|"")?(?=\s|$)"""),
    ),
    row(
        "Dask",
        r"dask[- ]scheduler|distributed\.cli\.dask_scheduler|dask-worker|dask worker",
        SHOWS,
        "--dashboard-address 127.0.0.1:8787",
        one(8787),
    ),
    row("Streamlit", r"streamlit", SHOWS, "--server.address 127.0.0.1"),
    row(
        "Gradio",
        r"gradio|webui\.py|launch\.py",
        USES,
        'launch(server_name="127.0.0.1")',
        one(7860, 100),
    ),
    row("MLflow", r"mlflow(\.server\S*)?", SHOWS, "--host 127.0.0.1"),
    Dashboard(
        "vLLM",
        re.compile(r"(?<![\w.-])vllm(?: serve|\.entrypoints\S*)", re.IGNORECASE),
        USES,
        "--host 127.0.0.1 (or --api-key)",
        guarded=re.compile(r"--api-key[= ]\S"),
    ),
    Dashboard(
        "SGLang",
        re.compile(r"sglang\.launch_server", re.IGNORECASE),
        USES,
        "--host 127.0.0.1 (or --api-key)",
        guarded=re.compile(r"--api-key[= ]\S"),
    ),
    row("Ollama", r"ollama", USES, "OLLAMA_HOST=127.0.0.1"),
    Dashboard(
        "llama.cpp",
        re.compile(r"(?<![\w.-])llama-server(?![\w-])"),
        USES,
        "--host 127.0.0.1 (or --api-key)",
        guarded=re.compile(r"--api-key[= ]\S"),
    ),
    row("Aim", r"aim (?:up|server)", SHOWS, "--host 127.0.0.1"),
    row("W&B local", r"wandb (?:server|local)|wandb/local", SHOWS, "-p 127.0.0.1:8080"),
    row("Visdom", r"visdom(\.server)?", RUNS_CODE, "--hostname 127.0.0.1"),
    row("Optuna Dashboard", r"optuna-dashboard", SHOWS, "--host 127.0.0.1"),
    row("Bokeh", r"(?:bokeh|panel) serve", SHOWS, "--address 127.0.0.1"),
    row("ComfyUI", r"comfyui/main\.py", RUNS_CODE, "--listen 127.0.0.1"),
    row("Netron", r"netron", SHOWS, "--host 127.0.0.1"),
    row("debugpy", r"debugpy(/\S*)?", RUNS_CODE, "--listen 127.0.0.1:5678"),
    row("ttyd", r"ttyd", SHELL, "-i lo"),
    Dashboard(
        "code-server",
        re.compile(r"(?<![\w.-])code-server(?![\w-])"),
        SHELL,
        "--bind-addr 127.0.0.1:8080",
        open_if=re.compile(r"--auth[= ]none"),
    ),
)


@dataclass(frozen=True)
class Server:
    """A process with what it listens on."""

    pid: int
    uid: int | None
    argv: Sequence[str]
    listeners: Sequence[Listener]
    job: int | None = None


def words_of(argv: Sequence[str]) -> list[str]:
    """The words that name a program, and a subcommand; values of options are neither.

    What an interpreter runs stands behind its own options: a script or -m MODULE. What
    follows -c is a program's text, which may name anything.
    """
    words = list(argv)
    apps = [word for word in words if APP.fullmatch(word)]
    if apps and SERVERS.search(words[0]):
        return apps[:1]
    if words and INTERPRETER.search(words[0]):
        rest = iter(words[1:])
        script = next(
            (w for w in rest if not w.startswith("-") or w in ("-m", "-c")), ""
        )
        if script == "-c":
            return words[:1]
        words = [next(rest, "") if script == "-m" else script or words[0], *rest]
    named = [w[:HEAD_CHARS] for w in takewhile(lambda w: not w.startswith("-"), words)]
    return named[:HEAD_WORDS]


def program(argv: Sequence[str]) -> str:
    """Name of a program for people: never its arguments, which may hold secrets."""
    words = words_of(argv)
    # A title that a program wrote over its arguments is one word with blanks.
    title = words[0].split(" ")[0] if words else "?"
    return clean(title.rpartition("/")[2] or title, 60)


def dashboard_of(server: Server) -> Dashboard | None:
    """Which dashboard a process is, None if none, or if it asks who comes."""
    words = words_of(server.argv)
    everything = " ".join(server.argv)
    for known in DASHBOARDS:
        named = known.command.search(" ".join(words))
        # A subcommand may be needed too, but alone it names nothing.
        if named and named.start() < len(words[0]):
            asks = known.guarded is not None and known.guarded.search(everything)
            is_open = known.open_if is None or known.open_if.search(everything)
            return None if asks or not is_open else known
    return None


def exposed(server: Server, known: Dashboard) -> list[Listener]:
    """What of it is reachable from elsewhere."""
    return [
        one
        for one in server.listeners
        if not one.loopback
        and (not known.ports or any(one.port in ports for ports in known.ports))
    ]


def judge(servers: Iterable[Server], node: str) -> list[Finding]:
    """A finding for every dashboard that listens beyond this node."""
    named = ((server, dashboard_of(server)) for server in servers)
    return [
        finding(server, known, listener, node)
        for server, known in named
        if known is not None
        for listener in exposed(server, known)
    ]


def finding(server: Server, known: Dashboard, at: Listener, node: str) -> Finding:
    """What is open, why that matters, and what to do instead."""
    of_job = f" of job {server.job}" if server.job is not None else ""
    return catalogue.hit(
        "dashboard",
        f"{known.name} ({program(server.argv)}, pid {server.pid}{of_job}) listens "
        f"on {at} without a password: {known.risk}",
        subject=f"pid {server.pid}",
        value=str(at),
        action=(
            f"start it with {known.loopback} and reach it by "
            f"ssh -L {at.port}:127.0.0.1:{at.port} {node}"
        ),
    )
