"""Real frameworks: those that scripts/setup.sh has put in .venv, and TensorFlow."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from gangstart import job

FRAMEWORKS = Path(sys.prefix) / "frameworks/bin/python"
PROBE = "import sys, importlib.util as u; sys.exit(u.find_spec(sys.argv[1]) is None)"
PROBE_S = 30
INSTALL_S = 100
RUN_S = 150  # imports of a minute on a busy machine


@lru_cache
def python_of(module: str) -> str:
    """The interpreter that can import the module; skips the test where none can."""
    python = sys.executable if module == "torch" else str(FRAMEWORKS)
    step = "demo" if module == "torch" else "frameworks"
    probe = [python, "-c", PROBE, module]
    if (
        not Path(python).exists()
        or subprocess.run(probe, timeout=PROBE_S, check=False).returncode
    ):
        pytest.skip(f"{python} has no {module}: scripts/setup.sh {step} installs it")
    return python


@lru_cache
def path_of(package: str) -> str:
    """A folder for PYTHONPATH with this package; skips where it cannot be had."""
    folder = mkdtemp(prefix="gangstart-frameworks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:"]
    try:
        done = subprocess.run(
            [*pip, "--target", folder, package],
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package}: pip needs more than {INSTALL_S} s")
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        pytest.skip(f"{package} does not install here: {said[-1]}")
    return folder


def start(
    command: list[str], folder: Path, env: dict[str, str]
) -> subprocess.Popen[str]:
    """One task that runs the command in the folder, with this environment."""
    home = {"HOME": str(folder), "PATH": job.environ().get("PATH", "")}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**home, **env},
    )


def outputs(tasks: list[subprocess.Popen[str]]) -> list[str]:
    """The last line of each task, all of which must end well; leaves no pipe open."""
    ended = []
    with ExitStack() as stack:
        for task in tasks:
            stack.enter_context(task)
        for task in tasks:
            stack.callback(task.kill)  # before the waits of the contexts
        for task in tasks:
            out, errors = task.communicate(timeout=RUN_S)
            assert task.returncode == 0, errors[-2000:]
            ended.append(out.strip().splitlines()[-1])
    return ended
