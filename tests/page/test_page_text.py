"""What would act is shown by its number; where a page goes; what loads it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING

import pytest
from gangstart.cli import main
from gangstart.page import write
from gangstart.page.axis import Axis
from gangstart.page.text import number, shown, utc
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path


@given(st.text(st.characters(), max_size=200))
def test_no_text_acts_on_a_screen(text: str) -> None:
    said = shown(text, 100)

    assert len(said) <= 100
    kinds = {unicodedata.category(char) for char in said}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert shown(said, 100) == said
    said.encode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain", "plain"),
        ("a\tb", "a b"),
        ("\x1b[31m\x00\x7f\n", "‹U+001B›[31m‹U+0000›‹U+007F›‹U+000A›"),
        ("\u202eabc\u2066", "‹U+202E›abc‹U+2066›"),
        ("Größe 日本 שלום", "Größe 日本 שלום"),
        ("\ud800", "‹U+D800›"),
        ("x" * 101, "x" * 99 + "…"),
    ],
)
def test_text_that_acts_is_shown_by_its_number(text: str, said: str) -> None:
    assert shown(text, 100) == said


@pytest.mark.parametrize("time", [None, float("inf"), float("nan"), 1e300, -1e300])
def test_a_time_beyond_the_calendar_is_not_known(time: float | None) -> None:
    assert utc(time) == ""


def test_numbers_are_short() -> None:
    assert [number(v) for v in (0.0, 0.123456, 92, 1979.6, 81559.9)] == [
        "0",
        "0.1235",
        "92",
        "1980",
        "81560",
    ]


@pytest.mark.parametrize("length", [0.0004, 0.7, 9, 61, 4000, 90_000, 1e7, 1e12])
def test_an_axis_has_a_few_ticks_whatever_its_length(length: float) -> None:
    axis = Axis(1_000.3, 1_000.3 + length, 0.0, 100.0)

    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 9
    assert all(axis.begin - 1e-3 <= tick <= axis.end + 1e-3 for tick in ticks)


def test_a_page_is_replaced_whole_and_as_the_umask_has_it(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    before = os.umask(0o027)
    try:
        write.write("triage", str(page), "new")
    finally:
        os.umask(before)

    assert page.read_text() == "new"
    assert stat.S_IMODE(page.stat().st_mode) == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    precious, page = tmp_path / "precious", tmp_path / "page.html"
    precious.write_text("keep me")
    page.symlink_to(precious)
    write.write("triage", str(page), "new")

    assert precious.read_text() == "keep me"
    assert page.read_text() == "new"


@pytest.mark.parametrize("verb", ["triage", "report"])
@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("", "is empty, not a file's name"),
        (".", "is a folder, not a file's name"),
        ("no/such/page.html", "there is no folder no/such"),
        ("/dev/null", "is no plain file: --html - writes to a pipe"),
    ],
)
def test_a_bad_place_is_one_sentence_before_any_work(
    verb: str, target: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"triage": "--job=1", "report": "--file=/no/such/file"}[verb]
    log = ["--log", __file__] if verb == "triage" else []
    assert main([verb, source, *log, "--html", target]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"gangstart: {verb}: --html {target!r}: {why}\n"


@pytest.mark.parametrize("verb", ["triage", "report"])
def test_two_answers_on_standard_output_are_refused(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--log", __file__] if verb == "triage" else []
    assert main([verb, *more, "--json", "--html", "-"]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert "would both go to standard output: name a file" in said.err


def test_a_disk_that_is_full_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "from gangstart.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    log = tmp_path / "job.out"
    log.write_text("[rank0]: KeyError: 'x'\n")
    argv = ["triage", "--log", str(log), "--html", str(tmp_path / "page.html")]
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert done.returncode == 2
    assert "page.html': File too large" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["job.out"]


def test_other_commands_do_not_load_the_templates() -> None:
    code = (
        "import sys, gangstart.check.command, gangstart.report, "
        "gangstart.triage.command; print('jinja2' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
