"""Options of gangstart triage that name what no log or record can be."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from gangstart.cli import main

if TYPE_CHECKING:
    from pathlib import Path

LOG = 'Traceback (most recent call last):\n  File "é.py", line 4\nValueError: é中\n'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    made = tmp_path / "slurm-7.out"
    made.write_text(LOG, encoding="utf-8")
    return made


def run(*words: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gangstart", "triage", *words],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **(env or {})},
    )
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode()


@pytest.mark.parametrize("option", ["--report", "--sacct-json"])
@pytest.mark.parametrize("what", ["pipe", "zero", "folder", "missing"])
def test_what_is_no_plain_file_is_refused_at_once(
    tmp_path: Path, option: str, what: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    name = "/dev/zero" if what == "zero" else str(tmp_path / what)

    code, _, said = run(option, name)

    assert code == 2
    assert said.startswith(f"gangstart: triage: {option} {name}: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("option", ["--log", "--report", "--sacct-json"])
def test_an_empty_name_is_not_the_folder_where_one_is(
    log: Path,
    option: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(log.parent)

    assert main(["triage", option, ""]) == 2

    assert "an empty name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--deadline", "nan"],
        ["--deadline", "0"],
        ["--job", "7;reboot"],
        ["--kmsg", "n1;reboot={log}"],
        ["--kmsg", "n1 $(reboot)={log}"],
    ],
)
def test_a_value_that_cannot_be_meant_is_one_sentence(
    log: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.replace("{log}", str(log)) for word in words]

    assert main(["triage", "--log", str(log), *given]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("gangstart: triage: ")
    assert said.err.count("\n") == 1


def test_logs_alone_are_read_until_the_deadline(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "slurm-7.out"
    log.write_bytes(b"step\n" * 1_000_000)
    moments = iter([0.0])
    monkeypatch.setattr(
        "gangstart.triage.offline.monotonic", lambda: next(moments, 1e9)
    )

    assert main(["triage", "--log", str(log), "--deadline", "1"]) == 0

    assert "not to its end: the time was up" in capsys.readouterr().out


def test_the_page_is_not_written_over_the_log(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["triage", "--log", str(log), "--html", str(log)]) == 2

    assert log.read_text(encoding="utf-8") == LOG
    assert "it stays" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gb18030"])
def test_a_locale_that_lacks_a_letter_gets_it_spelt_out(
    log: Path, encoding: str
) -> None:
    code, said, wrong = run("--log", str(log), env={"PYTHONIOENCODING": encoding})

    assert (code, wrong) == (0, "")
    assert said.startswith("APP_EXCEPTION: the program raised ValueError: ")
    if encoding != "gb18030":
        assert "\\u4e2d" in said
        assert f'{log}:3: "ValueError' in said


def test_closed_standard_streams_end_in_no_traceback(log: Path) -> None:
    script = 'exec >&- 2>"$1"; shift; exec "$@"'
    told = log.parent / "told"
    done = subprocess.run(
        [
            *("bash", "-c", script, "-", str(told)),
            *(sys.executable, "-m", "gangstart", "triage", "--log", str(log)),
        ],
        timeout=60,
        check=False,
    )

    assert done.returncode == 0
    assert told.read_text() == ""


def test_names_in_another_encoding_stay_apart(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_bytes(LOG.replace("中", "").encode("latin-1"))

    assert main(["triage", "--log", str(log)]) == 0

    assert "at \\xe9.py:4" in capsys.readouterr().out.splitlines()[0]
