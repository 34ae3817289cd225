"""Dashboards without a password: named by what they are, never by the port alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from check.fakenode import OURS, THEIRS, FakeNode, FakeProcess, found
from gangstart.check import dashboard
from gangstart.check.dashboard import DASHBOARDS, Server
from gangstart.check.listener import Listener

if TYPE_CHECKING:
    from pathlib import Path

    from gangstart.check.result import Finding

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is warned of
PYTHON = "/opt/env/bin/python3.11"
RAY = "/opt/env/lib/python3.11/site-packages/ray/dashboard/dashboard.py"


def judged(*argv: str, port: int = 6006, address: str = EVERYWHERE) -> list[Finding]:
    server = Server(7, 1001, argv, [Listener(address, port)], 501)
    return dashboard.judge([server], "n1")


KNOWN = [
    ("Ray", [PYTHON, "-u", RAY, "--host=0.0.0.0"], 8265),
    ("TensorBoard", [PYTHON, "/opt/env/bin/tensorboard", "--bind_all"], 6006),
    ("TensorBoard", [PYTHON, "-m", "tensorboard.main", "--logdir", "x"], 7000),
    ("Jupyter", [PYTHON, "/x/jupyter-lab", "--ip=*", "--IdentityProvider.token="], 1),
    ("Jupyter", [PYTHON, "-m", "jupyter", "lab", "--ServerApp.token=''"], 8888),
    ("Dask", [PYTHON, "/x/bin/dask", "scheduler"], 8787),
    ("Dask", ["/x/bin/dask-scheduler"], 8787),
    ("Streamlit", [PYTHON, "/x/bin/streamlit", "run", "app.py"], 8501),
    ("Gradio", [PYTHON, "webui.py", "--listen"], 7861),
    ("MLflow", ["/x/mlflow", "server", "--host", EVERYWHERE], 5000),
    ("MLflow", [PYTHON, "/x/gunicorn", "-w", "4", "mlflow.server:app"], 5000),
    ("vLLM", [PYTHON, "/x/bin/vllm", "serve", "model"], 8000),
    ("vLLM", [PYTHON, "-m", "vllm.entrypoints.openai.api_server"], 8000),
    ("SGLang", [PYTHON, "-m", "sglang.launch_server"], 30000),
    ("Ollama", ["/usr/bin/ollama", "serve"], 11434),
    ("llama.cpp", ["/x/llama-server", "-m", "x.gguf"], 8080),
    ("Aim", [PYTHON, "/x/aim", "up"], 43800),
    ("W&B local", [PYTHON, "/x/wandb", "server", "start"], 8080),
    ("Visdom", [PYTHON, "-m", "visdom.server"], 8097),
    ("Optuna Dashboard", [PYTHON, "/x/optuna-dashboard", "sqlite:///x"], 8080),
    ("Bokeh", [PYTHON, "/x/panel", "serve", "a.py"], 5006),
    ("ComfyUI", [PYTHON, "ComfyUI/main.py", "--listen"], 8188),
    ("Netron", [PYTHON, "/x/netron", "m.onnx"], 8080),
    ("debugpy", [PYTHON, "-m", "debugpy", "--listen", "0.0.0.0:5678"], 5678),
    ("ttyd", ["/usr/bin/ttyd", "bash"], 7681),
    ("code-server", ["/x/code-server", "--auth", "none"], 8080),
]


@pytest.mark.parametrize(("name", "argv", "port"), KNOWN)
def test_each_dashboard_is_known_by_its_command(
    name: str, argv: list[str], port: int
) -> None:
    (one,) = judged(*argv, port=port)
    assert one.verdict == "warn"
    assert one.reason.startswith(f"{name} (")
    assert one.value == f"{EVERYWHERE}:{port}"


def test_every_row_of_the_table_has_a_case() -> None:
    assert {name for name, _, _ in KNOWN} == {d.name for d in DASHBOARDS}


@pytest.mark.parametrize(
    ("argv", "port"),
    [
        (["python", "train.py"], 6006),
        (["python", "train.py", "--logger", "tensorboard"], 6006),
        (["python", "-c", "import tensorboard"], 6006),
        (["python", "train.py", "tensorboard"], 6006),
        (["python", "-m", "ipykernel_launcher", "-f", "x.json"], 8888),
        (["python", "/x/jupyter-lab", "--ip=0.0.0.0"], 8888),
        (["python", "/x/vllm", "serve", "m", "--api-key", "s3cret"], 8000),
        (["python", RAY], 44000),
        (["/x/ray/core/src/ray/raylet/raylet"], 8265),
        (["python", "launch.py"], 29500),
        (["/x/code-server"], 8080),
        (["my-tensorboard-like"], 6006),
        ([], 6006),
    ],
)
def test_a_port_alone_or_a_password_is_no_finding(argv: list[str], port: int) -> None:
    assert judged(*argv, port=port) == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1"]
)
def test_what_only_this_node_reaches_is_fine(address: str) -> None:
    assert judged("tensorboard", address=address) == []


@pytest.mark.parametrize("address", ["::", "10.1.2.3", "fe80::1"])
def test_every_other_address_is_not(address: str) -> None:
    assert len(judged("tensorboard", address=address)) == 1


def test_it_says_who_listens_where_and_what_to_do_instead() -> None:
    (one,) = judged(PYTHON, "/x/tensorboard", "--logdir", "s3cret")
    assert one.reason == (
        "TensorBoard (tensorboard, pid 7 of job 501) listens on 0.0.0.0:6006 without a "
        "password: whoever reaches it sees your runs"
    )
    assert one.action == (
        "start it with --host 127.0.0.1 and reach it by ssh -L 6006:127.0.0.1:6006 n1"
    )


def test_arguments_never_show_and_a_name_cannot_drive_the_terminal() -> None:
    (one,) = judged("tensorboard\x1b[31m\n", "--token", "s3cret")
    assert "s3cret" not in str(one)
    assert "\x1b" not in one.reason
    assert "\n" not in one.reason


def test_on_a_node_those_of_every_job_are_found(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    for pid, cgroup in ((7, OURS), (8, THEIRS), (9, "0::/system.slice")):
        board = FakeProcess(
            ("tensorboard",), cgroup=cgroup, listens=[("00000000", 6000 + pid)]
        )
        node.add(pid, board)
    node.cgroup("system.slice/slurmstepd.scope/job_501/step_0", 7)
    node.cgroup("system.slice/slurmstepd.scope/job_502/step_0", 8)
    event = node.check("node")
    assert event["verdict"] == "warn"
    assert [f["subject"] for f in found(event, "dashboard")] == ["pid 7", "pid 8"]
