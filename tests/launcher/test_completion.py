"""What Tab offers, in the shells themselves; and that manual pages are up to date."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from gangstart import commandline
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "gangstart"]
BASH = """\
source "$1"; shift
compopt() { :; }
COMP_WORDS=(gangstart "$@"); COMP_CWORD=$#
_gangstart
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """\
source $1; shift
_describe() { print -l -- ${(P)3} }
_files() { print FILES }
_normal() { print NORMAL }
compadd() { shift; print -l -- "$@" }
words=(gangstart "$@"); CURRENT=$(( $# + 1 ))
_gangstart
"""


def shown(*words: str) -> str:
    """What the command prints."""
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=60, check=True
    ).stdout


def shell(name: str) -> str:
    """A shell; skips where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name} (apt-get install {name})")
    return path


def offered(name: str, tmp_path: Path, *words: str) -> list[str]:
    """What a shell offers for the last of these words."""
    script = tmp_path / f"completion.{name}"
    script.write_text(shown("completion", name))
    body = {"bash": BASH, "zsh": ZSH}[name]
    flags = ["--norc"] if name == "bash" else ["-f"]
    done = subprocess.run(
        [shell(name), *flags, "-c", body, name, str(script), *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    return [line.partition(":")[0] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("",), {"run", "report", "check", "doctor", "plugin", "--version"}),
        (("che",), {"check"}),
        (("check", "--st"), {"--stage"}),
        (("check", "--stage", ""), {"prolog", "epilog", "node"}),
        (("plugin", ""), {"path", "install", "uninstall", "build"}),
        (("plugin", "install", "--l"), {"--libdir"}),
        (("cluster", "node", ""), {"stop", "cont", "kill", "start"}),
        (("completion", ""), {"bash", "zsh"}),
        (("report", "--file", "ev"), {"evidence.json"}),
    ],
)
def test_bash_offers_what_may_come_next(
    tmp_path: Path, words: tuple[str, ...], some: set[str]
) -> None:
    (tmp_path / "evidence.json").touch()
    found = set(offered("bash", tmp_path, *words))
    assert some <= found
    if words[-1]:
        assert found == some


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("",), {"run", "check", "doctor", "--version"}),
        (("check", "--stage", ""), {"prolog", "epilog", "node"}),
        (("plugin", "install", "--"), {"--libdir", "--dry-run"}),
        (("report", "--file", ""), {"FILES"}),
        (("run", "--", ""), {"NORMAL"}),
    ],
)
def test_zsh_offers_what_may_come_next(
    tmp_path: Path, words: tuple[str, ...], some: set[str]
) -> None:
    assert some <= set(offered("zsh", tmp_path, *words))


def test_a_shell_that_is_not_known_is_one_sentence() -> None:
    done = subprocess.run(
        [*COMMAND, "completion", "fish"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "invalid choice: 'fish'" in done.stderr


def test_every_verb_has_a_parser_and_every_option_a_line_of_help() -> None:
    found = [verb for top in commandline.verbs() for verb in top.all()]
    assert len(found) > 15
    lacking = [
        (verb.words, option.names or option.takes)
        for verb in found
        for option in verb.options
        if not option.help
    ]
    # A word whose choices are listed says by itself what it is.
    assert [names for _, names in lacking if isinstance(names, tuple)] == []


def test_the_manual_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "man.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "page", ["gangstart.1", "gangstart.conf.5", "spank_gangstart.8"]
)
def test_a_manual_page_has_no_error_of_roff(page: str) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("needs groff (apt-get install groff-base)")
    path = ROOT / "docs" / "man" / page
    done = subprocess.run(
        [groff, "-t", "-man", "-Tutf8", "-wmac", str(path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    # A narrow column of a table is a matter of looks.
    said = [li for li in done.stderr.splitlines() if "cannot adjust line" not in li]
    assert said == []
