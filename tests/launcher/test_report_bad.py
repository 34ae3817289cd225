"""``gangstart report`` and what is no report: one sentence, never a traceback."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from gangstart import cli
from reportsite import Site, made_site, put, started

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return made_site(tmp_path)


@pytest.mark.parametrize("wrong", ["x", "5.", ".5", "5.0.0", "-5", "5_1", "5+1", ""])
def test_what_is_no_job_is_refused_with_what_is_one(site: Site, wrong: str) -> None:
    if wrong.startswith("-"):
        assert site.run(wrong).returncode == 2
        return
    sentence = site.refused(wrong, code=2)
    assert sentence.startswith(f"{wrong!r} is not JOB or JOB.STEP")


@pytest.mark.parametrize("option", ["--file", "--archive", "--spool", "--cluster"])
def test_an_option_without_a_value_shows_no_other_report(
    site: Site, option: str
) -> None:
    put(site.archive / "5.0" / "start.json", started().raw_report())
    assert f"{option}: an empty name" in site.refused(option, "", code=2)


def test_a_step_and_a_file_are_too_much(site: Site) -> None:
    assert site.refused("5.0", "--file", "x", code=2) == (
        "give JOB.STEP or --file, not both"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not valid JSON: Expecting value"),
        ("{", "is not valid JSON: "),
        ('{"a": NaN}', "is not valid JSON: malformed"),
        ("[" * 100_000, "is not valid JSON: malformed"),
        ("1" * 10_000, "is not valid JSON: malformed"),
        ('{"\udcff":1}', "is not valid JSON: malformed"),
        ("[]", 'is not a start report: it lacks "schema":"gangstart.start" at the top'),
        ('{"schema":"x"}', "is not a start report: "),
        (
            '{"schema":"gangstart.start","version":2}',
            (
                "has version '2' of the report's schema, this gangstart reads version"
                " 1: install the gangstart that wrote it, or a newer one"
            ),
        ),
        (
            '{"schema":"gangstart.start","version":1}',
            (
                "is not a start report of version 1: its field complete is missing or"
                " of another type"
            ),
        ),
    ],
    ids=str,
)
def test_a_file_that_is_no_report_is_told_what_is_wrong(
    site: Site, content: str, said: str
) -> None:
    path = site.root / "x.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    for more in ([], ["--json"]):
        sentence = site.refused("--file", str(path), *more)
        assert sentence.startswith(f"{path} {said}"), sentence


def walk(part: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Every place in a JSON document."""
    inside: list[tuple[object, ...]] = [path]
    pairs: Any = ()
    if isinstance(part, dict):
        pairs = part.items()
    elif isinstance(part, list):
        pairs = enumerate(part)
    return inside + [p for key, one in pairs for p in walk(one, (*path, key))]


@pytest.mark.parametrize("other", [None, True, -1, 1e300, "x", [], {}], ids=repr)
def test_no_field_of_another_type_ends_in_a_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, other: object
) -> None:
    report = started().report()
    for place in walk(report)[1:]:
        changed: Any = json.loads(json.dumps(report))
        part = changed
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = other
        path = put(tmp_path / "x.json", json.dumps(changed))
        assert cli.main(["report", "--file", str(path)]) in {0, 1}, place
        err = capsys.readouterr().err
        assert err == "" or (
            err.startswith("gangstart: report: ") and err.count("\n") == 1
        )


def test_infinity_written_as_a_number_is_refused(site: Site) -> None:
    text = started().raw_report().replace('"elapsed_s":2.000000', '"elapsed_s":1e999')
    path = put(site.root / "x.json", text)
    assert "its field elapsed_s is missing or of another type" in site.refused(
        "--file", str(path)
    )


@pytest.mark.parametrize("kind", ["folder", "pipe", "none", "device"])
def test_what_is_no_plain_file_is_refused_without_waiting(
    site: Site, kind: str
) -> None:
    path = site.root / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    reason = "cannot be read: No such file" if kind == "none" else "is not a plain file"
    assert f"{path} {reason}" in site.refused("--file", str(path))


def test_a_file_larger_than_any_report_is_refused(site: Site) -> None:
    path = site.root / "x"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    assert "1024 MiB, more than any start report" in site.refused("--file", str(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_archive_that_must_not_be_read_is_told(site: Site) -> None:
    site.archive.mkdir(mode=0o000)
    assert f"(not readable: {site.archive})" in site.refused("5.0")
