"""Start reports and checks of many jobs, as the epilog leaves them in an archive."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gangstart.report_find import Places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DAY = 86400.0
T0 = 1_790_000_000.0


def places(root: Path) -> Places:
    """Folders of a machine."""
    for name in ("archive", "spool", "state"):
        (root / name).mkdir(exist_ok=True)
    return Places(root / "archive", root / "spool", [root / "state"], [])


def node(
    name: str, index: int, arrived: float | None, **more: object
) -> dict[str, Any]:
    """A node with one task."""
    phase = "never connected" if arrived is None else "ready"
    return {
        "name": name,
        "index": index,
        "ranks": str(index),
        "phase": phase,
        "detail": "",
        "address": "",
        "connected_s": None if arrived is None else max(arrived - 0.1, 0.0),
        "reaches_master": arrived is not None,
        "master_rtt_s": None,
        "clock_offset_s": None,
        "tasks": [{"rank": index, "arrived_s": arrived}],
        "health": None,
    } | more


def report(
    step: str, arrivals: Mapping[str, float | None], **changed: object
) -> dict[str, Any]:
    """A report of a start: who arrived when; a refusal if somebody did not."""
    missing = [name for name, when in arrivals.items() if when is None]
    job, number = map(int, step.split("."))
    fields: dict[str, Any] = {
        "user": 1000,
        "cluster": "c",
        "restart": 0,
        "at": T0 + job * 600.0 + number,
        "reason": "timeout" if missing else "none",
        "blamed": ",".join(missing),
        "outcome": "refused" if missing else "released",
        "complete": True,
        "health": {},
    }
    fields |= changed
    return {
        "schema": "gangstart.start",
        "version": 1,
        "complete": fields["complete"],
        "step": {
            "name": step,
            "job_id": job,
            "step_id": number,
            "restart_count": fields["restart"],
            "cluster": fields["cluster"],
            "user_id": fields["user"],
            "submit_host": "login",
        },
        "outcome": fields["outcome"],
        "reason": fields["reason"],
        "exit_code": 75 if missing else 0,
        "message": [],
        "decided_at": fields["at"],
        "elapsed_s": 5.0,
        "first_connected_s": 0.1,
        "timeout_s": 60,
        "spec": "timeout=60",
        "expected": {"nodes": len(arrivals), "tasks": len(arrivals)},
        "arrived": {"nodes": len(arrivals), "tasks": len(arrivals) - len(missing)},
        "stale_arrivals": 0,
        "blamed_nodes": fields["blamed"],
        "missing_ranks": "",
        "last": None,
        "skew_s": 0.0,
        "master": None,
        "kept_from_user": [],
        "health": {},
        "warnings": [],
        "versions": {"plugin": "0.1.0", "slurm": "22.05.8", "wire": 1},
        "nodes": [
            node(name, index, when, health=fields["health"].get(name))
            for index, (name, when) in enumerate(arrivals.items())
        ],
    }


def health(verdict: str, *findings: Mapping[str, Any]) -> dict[str, Any]:
    """What a node told about its GPUs."""
    record = {"verdict": verdict, "none": False, "findings": list(findings)}
    return {"verdict": verdict, "why": "", "record": record}


def finding(check: str, verdict: str = "fail", value: str = "") -> dict[str, Any]:
    """One finding of a check."""
    return {
        "check": check,
        "kind": "hit",
        "verdict": verdict,
        "value": value,
        "reason": f"GPU 0: {check} {value}",
    }


def keep(at: Places, told: Mapping[str, Any]) -> Path:
    """Put a complete report where the epilog puts it."""
    assert at.archive is not None
    folder = at.archive / told["step"]["name"]
    for one in told["nodes"]:
        if one["phase"] == "ready" and re.fullmatch(r"\w+", one["name"]):
            (folder / one["name"] / "sys").mkdir(parents=True, exist_ok=True)
    return put(folder / "start.json", told)


def keep_checks(at: Places, job: int, name: str, events: Sequence[object]) -> Path:
    """Put events of node checks where the epilog puts them."""
    assert at.archive is not None
    path = at.archive / f"{job}.node" / name / "sys" / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def check(
    stage: str, at: float, *findings: Mapping[str, Any], **more: object
) -> object:
    """One event of a node check."""
    verdicts = [one["verdict"] for one in findings]
    worst = "fail" if "fail" in verdicts else "warn" if verdicts else "ok"
    return {
        "event": "check",
        "schema": "gangstart.check",
        "version": 1,
        "time": at,
        "stage": stage,
        "job": 1,
        "verdict": worst,
        "gpu": {"verdict": worst, "sentence": "", "event": {"findings": findings}},
        "findings": [],
        "differences": None,
    } | more


def put(path: Path, told: object) -> Path:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = told if isinstance(told, str) else json.dumps(told, separators=(",", ":"))
    path.write_text(text)
    return path
