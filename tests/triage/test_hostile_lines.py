"""Damaged lines: whatever a log holds, triage answers."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from cases.triagecase import triage
from gangstart.triage.codes import CODES
from triage import accuracy

ROUNDS = 400
BYTES = "\x00\x1b[:()0123456789-,<>'\"\r\t é\u202e"


def damaged(line: str, other: str, chance: random.Random) -> str:
    """The line with a few characters put in, taken out, or of another line."""
    for _ in range(chance.randint(0, 3)):
        at = chance.randint(0, len(line))
        put = chance.choice([chance.choice(BYTES), other[:60], "9" * 30, ""])
        line = line[:at] + put + line[at + chance.randint(0, 9) :]
    return line


def broken(
    case: dict[str, Any], lines: list[str], chance: random.Random
) -> dict[str, Any]:
    given: dict[str, Any] = copy.deepcopy(case["input"])
    for key in ("files", "dmesg"):
        for name, old in (given.get(key) or {}).items():
            more = [chance.choice(lines) for _ in range(chance.randint(0, 5))]
            given[key][name] = [
                damaged(line, chance.choice(lines), chance) for line in old + more
            ]
    return given


def test_damaged_logs_get_an_answer_that_can_be_printed() -> None:
    cases = accuracy.cases()
    lines = [
        line
        for case in cases
        for key in ("files", "dmesg")
        for log in (case["input"].get(key) or {}).values()
        for line in log
    ]
    chance = random.Random(7)  # noqa: S311 - the same damage in every run
    for _ in range(ROUNDS):
        answer = triage(broken(chance.choice(cases), lines, chance))

        assert answer["root_cause"] in CODES
        assert not [c for c in answer["text"] if ord(c) < 32 and c != "\n"]
        json.dumps(answer).encode()


def test_numbers_beyond_all_measure_get_an_answer() -> None:
    huge = "9" * 40
    samples = [["2026-05-11T08:00:00", 0], ["2026-05-11T09:05:00", float("nan")]]
    answer = triage(
        {
            "jobid": "1",
            "files": {"a.out": [f"[rank{huge}]: KeyError: 'x'", f"{huge}: boom"]},
            "dmesg": {"cn01": [f"NVRM: Xid (PCI:0000:5d:00): {huge}, pid={huge}, x"]},
            "sacct": [
                {"JobID": "1", "State": "FAILED", "Start": "2026-05-11T09:00:00"}
            ],
            "prometheus": [
                {
                    "metric": metric,
                    "labels": {"Hostname": "cn01", "gpu": "²"},
                    "samples": samples,
                }
                for metric in (
                    "DCGM_FI_DEV_XID_ERRORS",
                    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
                    "DCGM_FI_DEV_SM_CLOCK",
                )
            ],
        }
    )

    assert answer["root_cause"] == "APP_EXCEPTION"
