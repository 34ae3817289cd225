"""Every recorded case: what the product says about a fault that people really had."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import adapter, compare

HERE = Path(__file__).resolve().parent
CASES = [
    path
    for path in sorted(HERE.glob("given/*.json")) + sorted(HERE.glob("own/*.json"))
    if json.loads(path.read_text())["kind"] in adapter.KINDS
]


def run_adapter(case: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, HERE / "adapter.py"],
        input=json.dumps(case),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",  # it must not matter where it is started
    )


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_product_gives_the_right_answer(path: Path) -> None:
    case = json.loads(path.read_text())
    done = run_adapter({key: case[key] for key in ("kind", "id", "input")})
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert compare.broken_claims(case, answer) == [], answer


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_no_case_accepts_an_empty_answer(path: Path) -> None:
    assert compare.broken_claims(json.loads(path.read_text()), {}) != []


def test_an_unknown_kind_ends_in_one_sentence() -> None:
    done = run_adapter({"kind": "weather", "id": "X", "input": {}})
    assert done.returncode == 2
    assert done.stderr == ""
    assert "weather" in json.loads(done.stdout)["error"]
