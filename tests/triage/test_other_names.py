"""The same faults under other names and prefixes: no rule knows a case by its words."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from cases.compare import broken_claims
from cases.triagecase import triage
from triage import accuracy

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]


def renamed(prefix: str) -> Callable[[Json], Json]:
    """Every node gets another name: cn03 becomes PREFIX-03."""

    def change(case: Json) -> Json:
        text = re.sub(r"\b[cg]n(?=\[)", f"{prefix}-", json.dumps(case))
        made: Json = json.loads(re.sub(r"\b[cg]n(\d\d)\b", rf"{prefix}-\1", text))
        return made

    return change


def rewritten(pattern: str, put: str) -> Callable[[Json], Json]:
    """Every line of a log is written otherwise."""

    def change(case: Json) -> Json:
        made: Json = json.loads(json.dumps(case))
        for name, lines in (made["input"].get("files") or {}).items():
            made["input"]["files"][name] = [re.sub(pattern, put, li) for li in lines]
        return made

    return change


CHANGES = {
    "nodes are called like addresses": renamed("ip-10-0-3"),
    "nodes are called like machines": renamed("dgx-a100"),
    "srun labels lines": rewritten(r"^\[rank(\d+)\]: ?", r"\1: "),
    "srun and torch label lines": rewritten(r"^\[rank(\d+)\]:", r"\1: [rank\1]:"),
    "mpirun tags lines": rewritten(r"^\[rank(\d+)\]: ?", r"[1,\1]<stderr>:"),
    "srun shows whole names": rewritten(r"(error: [cg]n\d\d):", r"\1.hpc.example.org:"),
    "lines end like those of Windows": rewritten(r"$", "\r"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_the_answers_are_the_same(change: Callable[[Json], Json]) -> None:
    wrong = {}
    for case in map(change, accuracy.cases()):
        claims = broken_claims(case, triage(case["input"]))
        if claims:
            wrong[case["id"]] = claims
    assert wrong == {}
