"""What a rank loads: each import is CPU time that every rank of a node pays."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from run.mpitools import GANGSTART, PREFIXES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Each of them costs a rank from 1 to 20 ms, some by what they load in turn.
HEAVY = {
    "argparse", "ast", "cffi", "dataclasses", "difflib", "email", "encodings.idna",
    "gettext", "hashlib", "html", "http", "hyperscan", "importlib.metadata", "inspect",
    "ipaddress", "jsonschema", "logging", "pathlib", "pickle", "random", "rich",
    "runpy", "shutil", "ssl", "string", "subprocess", "tempfile", "threading",
    "traceback", "typing", "typing_extensions", "urllib", "urllib.parse", "uuid",
    "xml", "zstandard",
}  # fmt: skip
#: Our own that other verbs, or rank 0 alone, need.
OTHERS = {
    "gangstart.gpu", "gangstart.gpudiff", "gangstart.gpuxid", "gangstart.plugstack",
    "gangstart.report", "gangstart.run.controlhub", "gangstart.run.inprocess",
    "gangstart.run.root", "gangstart.run.userreport", "gangstart.step",
    "gangstart.usage",
}  # fmt: skip


def loaded(env: Mapping[str, str], *words: str) -> set[str]:
    """Modules that the process which the launcher starts has loaded at its end."""
    argv = [sys.executable, "-X", "importtime", GANGSTART, "run", *words, "--", "true"]
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "pass"],
        env=dict(env), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    done = subprocess.run(
        argv,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return names(done.stderr) - names(bare.stderr)


def names(told: str) -> set[str]:
    """Modules that -X importtime names."""
    rows = [line.split("|") for line in told.splitlines() if "import time:" in line]
    return {row[2].strip() for row in rows if len(row) == 3}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment without launcher, Slurm's files and an mpi4py that would load."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('not for this test')\n")
    return kept | {
        "PYTHONPATH": str(tmp_path),
        "SLURM_CONF": str(tmp_path / "slurm.conf"),
        "TMPDIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
    }


def test_a_rank_loads_nothing_that_is_slow_to_load(env: dict[str, str]) -> None:
    """The forked worker's imports are listed as well: it shares the stream."""
    # Rank 0 of a world of one does what every rank does, and rank 0's part.
    zero = {
        "gangstart.run.root", "gangstart.run.userreport",
        "threading",  # the try to reach MASTER_ADDR is beside everything else
    }  # fmt: skip
    found = loaded(env, "timeout=20,health=off")

    assert "gangstart.run.worker" in found
    assert found & (HEAVY | OTHERS) - zero == set()


def test_a_step_of_the_plugin_loads_no_more(env: dict[str, str]) -> None:
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "GANGSTART_STEP": "7.0"}

    assert loaded({**env, **step}) & (HEAVY | OTHERS) == set()


@pytest.mark.parametrize("path", ["/nonexistent:", ".", "here"])
def test_a_file_of_the_users_is_not_taken_for_a_module(
    env: dict[str, str], tmp_path: Path, path: str
) -> None:
    """Not by way of PYTHONPATH either; to his program nothing changes."""
    here = tmp_path / "here"
    here.mkdir()
    for name in ("json", "select", "socket", "signal", "mpi4py", "fcntl"):
        (here / f"{name}.py").write_text("raise SystemExit('imported')\n")
    done = subprocess.run(
        [GANGSTART, "run", "health=off", "--", sys.executable, "-c", "import select"],
        env={**env, "PYTHONPATH": path if path != "here" else str(here)},
        cwd=here, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert "1/1 tasks" in done.stderr
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "imported")
