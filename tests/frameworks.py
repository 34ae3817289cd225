"""Real frameworks from PyPI, each in a folder of its own that ends with the tests."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import time
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import pytest
from gangstart import job

INSTALL_S = 60
RUN_S = 60


@lru_cache
def install(bare: str, needed: tuple[str, ...]) -> tuple[str, str]:
    """Folder that holds the packages, or why there is none.

    `bare` comes without what it depends on, as torch is there already.
    """
    folder = mkdtemp(prefix="gangstart-frameworks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
    end = time.monotonic() + INSTALL_S
    for extra in (["--no-deps", bare], list(needed)):
        if extra[-1:] in ([""], []):
            continue
        try:
            done = subprocess.run(
                [*pip, "--target", folder, *extra],
                capture_output=True,
                text=True,
                timeout=max(1.0, end - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "", f"pip needs more than {INSTALL_S} s"
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            return "", next((li for li in said if "ERROR" in li), said[-1])
    return folder, ""


def path_of(bare: str, *needed: str) -> str:
    """The folder for PYTHONPATH; skips the test where it cannot be had."""
    if bare and find_spec("torch") is None:
        pytest.skip("torch is not installed (the demo extra)")
    folder, reason = install(bare, needed)
    if not folder:
        pytest.skip(f"{bare or needed[0]} does not install here: {reason}")
    return folder


def start(code: str, folder: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """One task that runs the code with this environment and the packages."""
    home = {"HOME": folder, "PATH": job.environ().get("PATH", "")}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(folder),
        env={**home, **env, "PYTHONPATH": folder},
    )


def outputs(tasks: list[subprocess.Popen[str]]) -> list[str]:
    """The last line of each task, all of which must end well."""
    ended = []
    try:
        for task in tasks:
            out, errors = task.communicate(timeout=RUN_S)
            assert task.returncode == 0, errors[-2000:]
            ended.append(out.strip().splitlines()[-1])
    finally:
        for task in tasks:
            task.kill()
    return ended
