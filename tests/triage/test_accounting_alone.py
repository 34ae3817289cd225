"""sacct --json of real Slurms, and nothing else: what can be said, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gangstart.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).parent / "source" / "recorded"
#: Job of the recorded workload -> what its accounting alone shows.
ANSWERS = {
    "ok": "NO_FAILURE",
    "bad": "APP_EXIT",
    "seg": "SEGFAULT",
    "limit": "TIME_LIMIT",
    "canc": "USER_CANCEL",
    "array": "UNKNOWN",
}


def recorded() -> Iterator[tuple[str, str, str, str]]:
    """Release, job, number and what sacct printed."""
    for path in sorted(RECORDED.glob("[0-9]*.json")):
        told = json.loads(path.read_text())
        for job, number in told["jobs"].items():
            for call, answer in told["calls"].items():
                asked = call.split()
                if asked[0] == "sacct" and {"--json", str(number)} <= set(asked):
                    yield path.stem, job, str(number), answer["out"]


CASES = [case for case in recorded() if case[1] in ANSWERS]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_the_accounting_alone_says_this_much(
    case: tuple[str, str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, job, number, printed = case
    file = tmp_path / "sacct.json"
    file.write_text(printed)

    assert main(["triage", "--json", "--sacct-json", str(file), "--job", number]) == 0

    assert json.loads(capsys.readouterr().out)["root_cause"] == ANSWERS[job]


def test_several_releases_are_recorded() -> None:
    assert len({release for release, *_ in CASES}) >= 2


def test_what_is_not_of_sacct_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sacct.json"
    file.write_text("[]")

    assert main(["triage", "--sacct-json", str(file)]) == 2
    assert "is not the output of sacct --json" in capsys.readouterr().err


def test_a_job_that_is_not_in_it_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sacct.json"
    file.write_text(CASES[0][3])

    assert main(["triage", "--sacct-json", str(file), "--job", "999"]) == 2
    assert "has no job 999" in capsys.readouterr().err
