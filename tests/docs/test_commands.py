"""Every command in the documents exists, and some test runs it."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import gangstart
from docs.commands import (
    DOCUMENTS,
    ELSEWHERE,
    blocks,
    commands,
    unknown_words,
    way,
)
from install.site import CONF, LINE, Machine
from repo import ROOT, text

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = re.compile(r"\bgangstart\.(\w+)")


def test_every_block_is_of_commands_a_script_or_what_was_printed() -> None:
    known = [
        b
        for b in blocks()
        if b.is_output or b.is_script or b.is_program or b.is_configuration
    ]
    assert [b for b in blocks() if not b.commands and b not in known] == []
    assert {b.document for b in blocks()} == set(DOCUMENTS)


def test_programs_use_the_library_as_it_is() -> None:
    programs = [b.body for b in blocks() if b.is_program]
    used = {name for body in programs for name in LIBRARY.findall(body)}
    for body in programs:
        compile(body, "block", "exec")

    assert used, "no document shows the library"
    assert used <= set(gangstart.__all__)


def test_every_command_is_run_by_some_test() -> None:
    assert [shown for shown in commands() if not way(shown)] == []
    assert len(commands()) > 30


def test_what_is_said_to_be_run_elsewhere_is_shown_and_run_there() -> None:
    lines = {shown.line for shown in commands()}
    for line, (path, name) in ELSEWHERE.items():
        assert line in lines, "no document shows it any more"
        assert f"def {name}(" in text(ROOT / path)


def test_every_verb_and_option_of_the_command_exists() -> None:
    wrong = {
        shown.line: unknown
        for shown in commands()
        if re.search(r"(^|[ /])gangstart ", shown.line)
        and "apt" not in shown.line
        and (unknown := unknown_words(shown.line.replace(".venv/bin/", "")))
    }
    assert wrong == {}


def test_the_test_of_options_sees_what_is_not_there() -> None:
    assert unknown_words("gangstart doctor --nodse all") == ["--nodse"]
    assert unknown_words("gangstart cluster upp") == ["upp"]
    assert unknown_words("mpirun -n 2 gangstart run timeout=60 -- python --x") == []


def test_every_verb_of_make_exists() -> None:
    verbs = set(re.findall(r"^([a-z]+):.*##", text(ROOT / "Makefile"), re.MULTILINE))
    for shown in commands():
        if way(shown) == "make":
            assert shown.line.split()[1] in verbs


def test_the_package_has_the_name_that_pip_is_told() -> None:
    project = text(ROOT / "pyproject.toml")
    assert re.search(r'^name = "gangstart"$', project, re.MULTILINE)
    for extra in ("mpi", "mcp"):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE)


def test_the_admins_guide_works_from_install_to_uninstall(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    seen = []
    for shown in commands("docs/admin.md"):
        if way(shown) != "machine":
            continue
        seen.append(shown.line)
        if shown.line.startswith("sed "):
            there = shown.line.replace("/etc/slurm", str(tmp_path / "etc/slurm"))
            subprocess.run(["sh", "-c", there], check=True, timeout=30)
            assert machine.order() == [], "it is switched off"
            continue
        words = shown.line.split()[2:]
        if "--root" in words:
            assert words[3:] == ["--root", "/srv/images/compute", "--release", LINE][
                2:
            ] or ("--release" in words)
            words = [words[0]]
        ran = machine.plugin(words[0], *words[1:])
        assert ran.returncode == 0, ran.stderr
        if words[0] == "install" and "--dry-run" not in words:
            assert machine.order() == ["spank_gangstart.so"]
        if "partition=train" in words:
            assert "auto=gpu partition=train" in machine.text(CONF)
    assert seen[-1] == "gangstart plugin uninstall"
    assert machine.files() == set()
