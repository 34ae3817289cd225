"""The command line frame: verbs, help, and one sentence for every failure."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from gangstart import __version__, cli, job
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real command."""
    return subprocess.run(
        [sys.executable, "-m", "gangstart", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def one_sentence(text: str) -> bool:
    """Whether stderr holds exactly one line, and it is ours."""
    return text.startswith("gangstart: ") and text.count("\n") == 1


def fail_with_code(_argv: list[str]) -> int:
    raise GangstartError("node n7 is away", exit_code=75)


def fail_plainly(_argv: list[str]) -> int:
    raise GangstartError("no")


def fail_as_the_system_does(_argv: list[str]) -> int:
    raise OSError(28, "No space left on device", "/var/x")


def fail_by_ctrl_c(_argv: list[str]) -> int:
    raise KeyboardInterrupt


def frame_around(verb: Callable[[list[str]], int]) -> int:
    """Exit code of the command line with one verb, which is in this file."""
    row = cli.Command("verb", f"{__name__}:{verb.__name__}", "fails")
    return cli.main(["verb"], [row])


def test_help_lists_every_verb_with_its_line() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    for command in cli.COMMANDS:
        assert f"  {command.name}" in shown.stdout
        assert command.summary in shown.stdout


def test_every_verb_in_the_table_can_be_loaded_and_has_help() -> None:
    for command in cli.COMMANDS:
        assert callable(command.load())
        shown = run(command.name, "--help")
        assert shown.returncode == 0
        assert f"usage: gangstart {command.name}" in shown.stdout


def test_version_is_the_packages() -> None:
    assert run("--version").stdout == f"gangstart {__version__}\n"


def test_no_arguments_show_the_help_and_are_an_error() -> None:
    shown = run()
    assert shown.returncode == 2
    assert "cluster" in shown.stdout


def test_an_unknown_verb_names_the_closest_one() -> None:
    shown = run("clutser")
    assert shown.returncode == 2
    assert one_sentence(shown.stderr)
    assert "did you mean cluster?" in shown.stderr


def test_an_unknown_verb_far_from_all_lists_them() -> None:
    shown = run("zzz")
    assert shown.returncode == 2
    names = ", ".join(command.name for command in cli.COMMANDS)
    assert f"use {names} (see" in shown.stderr


def test_a_bad_option_of_a_verb_is_one_sentence_that_names_its_help() -> None:
    shown = run("cluster", "up", "-n", "many")
    assert shown.returncode == 2
    assert one_sentence(shown.stderr)
    assert "invalid int value: 'many'" in shown.stderr
    assert "gangstart cluster up --help" in shown.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["doctor"],
        ["doctor", "--nodes", "all", "--json"],
        ["plugin", "install", "--dry-run"],
        ["plugin", "uninstall", "--dry-run"],
        ["triage", "7"],
        ["report", "7"],
        ["env"],
        ["check", "--stage", "node"],
    ],
    ids=" ".join,
)
def test_without_any_slurm_a_verb_still_answers_in_sentences(words: list[str]) -> None:
    nowhere = "/nonexistent"
    done = subprocess.run(
        [sys.executable, "-m", "gangstart", *words],
        env=job.child_env(PATH=nowhere, SLURM_CONF=f"{nowhere}/slurm.conf"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout or done.stderr.startswith("gangstart: ")


def test_one_verb_does_not_import_the_others() -> None:
    code = "import sys, gangstart.cli; print('gangstart.cluster' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "False\n"


def test_an_error_ends_in_its_sentence_and_its_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert frame_around(fail_with_code) == 75
    assert capsys.readouterr().err == "gangstart: node n7 is away\n"


def test_an_error_without_a_code_is_1() -> None:
    assert frame_around(fail_plainly) == 1


def test_the_systems_refusal_names_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert frame_around(fail_as_the_system_does) == 1
    assert capsys.readouterr().err == "gangstart: No space left on device: /var/x\n"


def test_ctrl_c_is_130_and_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame_around(fail_by_ctrl_c) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_is_no_error_message() -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "gangstart", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    # Gone before a byte was written: the help cannot be delivered.
    command.stdout.close()
    assert command.stderr is not None
    with command.stderr as errors:
        assert errors.read() == ""
    assert command.wait(30) == 141


def test_a_childs_environment_is_a_copy_with_changes() -> None:
    base = {"A": "1", "B": "2"}
    assert job.child_env(base, B=None, C="3") == {"A": "1", "C": "3"}
    assert base == {"A": "1", "B": "2"}


def test_a_module_started_anew_ignores_the_callers_directory(tmp_path: Path) -> None:
    # A user's own json.py must not be what the tool imports.
    (tmp_path / "json.py").write_text("raise SystemExit('wrong json')")
    argv = job.module_argv("gangstart.cluster.command", "status", "--name", "none-such")
    done = subprocess.run(
        argv,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "wrong json" not in done.stderr
    assert "none-such does not exist" in done.stderr
