"""The corpus: every case right, every cause covered, the published table true."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import jsonschema
import pytest
from cases.compare import broken_claims
from cases.triagecase import triage
from gangstart.triage.codes import CODES
from triage import accuracy

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = sorted((accuracy.ROOT / "tests" / "corpus").glob("*.json"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_triage_gives_the_labelled_answer(path: Path) -> None:
    case = json.loads(path.read_text())
    assert case["id"] == path.stem
    answer = triage(case["input"])
    assert broken_claims(case, answer) == [], answer["text"]
    assert broken_claims(case, {}) != [], "an empty answer passes this case"


def test_the_corpus_covers_every_cause_twice_and_the_honest_answers() -> None:
    labels = Counter(
        json.loads(p.read_text())["expected"]["root_cause"] for p in CORPUS
    )
    assert sum(labels.values()) >= 120
    assert [code for code in CODES if labels[code] < 2] == []
    assert labels["UNKNOWN"] + labels["NO_FAILURE"] >= 20


def test_records_of_checks_in_the_corpus_are_true_to_their_form() -> None:
    schema = json.loads((accuracy.ROOT / "docs" / "check.schema.json").read_text())
    valid = jsonschema.Draft202012Validator(schema)
    cases = [json.loads(path.read_text())["input"] for path in CORPUS]
    records = [
        record
        for case in cases
        for told in case.get("checks", {}).values()
        for record in told
    ]
    assert len(records) > 10
    for record in records:
        valid.validate(record)


def test_every_cause_has_a_category() -> None:
    assert set(accuracy.CATEGORY) == set(CODES)


def test_the_published_table_is_what_triage_does_today() -> None:
    made = accuracy.table([accuracy.judge(case) for case in accuracy.cases()])
    assert accuracy.page_table() == made, "run make accuracy"
