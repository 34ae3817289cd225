"""Which of the package's plugins a Slurm gets, and what is said where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gangstart.errors import GangstartError
from gangstart.plugin import build, command, path, recipe
from gangstart.plugin.recipe import Line

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that has plugins for three release lines."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    for line in ("24.11", "22.05", "26.05"):
        (folder / f"spank_gangstart-{line}.so").touch()
    monkeypatch.setattr(path, "FOLDER", folder)
    return folder


def refused(*words: str) -> str:
    """The sentence that a command line ends in."""
    with pytest.raises(GangstartError) as caught:
        command.main(list(words))
    return caught.value.message


def program(folder: Path, name: str, script: str) -> None:
    """Put a program of a Slurm into a folder."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(path, "SYSTEM_PATH", str(folder))
    return folder


@pytest.mark.parametrize("version", ["24.11", "24.11.0", "24.11.5", "24.11.5-2"])
def test_every_micro_release_gets_the_plugin_of_its_line(
    package: Path, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["path", "--slurm", version]) == 0
    assert capsys.readouterr().out == f"{package}/spank_gangstart-24.11.so\n"


@pytest.mark.parametrize("version", ["", "24", "24.1", "x24.11", "24.11.", "２４.11"])
def test_what_is_no_version_is_refused_with_one_that_is(version: str) -> None:
    assert "such as 24.11" in refused("path", "--slurm", version)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("version", ["26.11", "24.05", "99.99.9"])
def test_an_unknown_line_says_what_there_is_and_how_to_get_one(version: str) -> None:
    said = refused("path", "--slurm", version)
    assert "22.05, 24.11, 26.05" in said
    assert "gangstart plugin build" in said


@pytest.mark.usefixtures("package")
def test_a_line_before_the_first_one_is_called_too_old() -> None:
    assert "older than 22.05" in refused("path", "--slurm", "21.08.8")


def test_a_package_without_plugins_says_so(package: Path) -> None:
    for file in package.iterdir():
        file.unlink()
    assert "without the plugin" in refused("path", "--slurm", "24.11")


def test_the_local_slurm_is_asked_by_the_first_that_answers(programs: Path) -> None:
    # Without slurm.conf a client of 24.11 tells nothing; slurmd needs none.
    program(programs, "slurmd", "echo slurm-wlm 24.11.5")
    program(programs, "scontrol", "exit 1")
    assert path.local() == Line(24, 11)
    program(programs, "slurmd", "echo fatal >&2; exit 1")
    program(programs, "srun", "echo slurm 26.05.1-1")
    assert path.local() == Line(26, 5)


def test_no_slurm_that_answers_names_the_option(programs: Path) -> None:
    program(programs, "srun", "echo slurm-wlm unknown")
    assert "--slurm VERSION" in refused("path")


def test_a_program_that_hangs_is_given_up(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path, "ASK_SECONDS", 0.2)
    program(programs, "slurmd", "exec /bin/sleep 60")
    assert path.asked(str(programs / "slurmd")) is None


def test_lines_sort_by_number_and_are_written_as_slurm_does() -> None:
    assert sorted([Line(24, 11), Line(24, 5), Line(23, 11)])[1] == Line(24, 5)
    assert str(Line(24, 5)) == "24.05"
    assert recipe.parse("24.05.1") == Line(24, 5)


@pytest.fixture
def include(tmp_path: Path) -> Path:
    """Headers of a Slurm that nobody knows yet."""
    folder = tmp_path / "include" / "slurm"
    folder.mkdir(parents=True)
    for name in build.HEADERS:
        (folder / name).touch()
    (folder / "slurm_version.h").write_text("#define SLURM_VERSION_NUMBER 0x1a0b02\n")
    return folder.parent


def test_headers_tell_their_line(include: Path) -> None:
    assert build.line_of(include) == Line(26, 11)


def test_headers_of_sources_have_no_number_yet(include: Path) -> None:
    (include / "slurm" / "slurm_version.h").write_text("#undef SLURM_VERSION_NUMBER\n")
    said = refused("build", "--slurm-include", str(include))
    assert "no SLURM_VERSION_NUMBER" in said


def test_missing_headers_are_named_with_their_package(tmp_path: Path) -> None:
    said = refused("build", "--slurm-include", str(tmp_path))
    assert "slurm/spank.h" in said
    assert "libslurm-dev" in said


def test_a_missing_compiler_is_named(
    include: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    target = tmp_path / "x.so"
    said = refused("build", "--slurm-include", str(include), "-o", str(target))
    assert "no compiler no-such-compiler" in said
    assert not target.exists()


def test_a_compiler_that_fails_is_quoted_by_its_first_error(
    include: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'echo "a.c: warning: b" >&2; echo "a.c:1: error: no slurm" >&2; exit 4'
    program(tmp_path, "cc", script)
    monkeypatch.setenv("CC", f"{tmp_path}/cc -m64")
    said = refused("build", "--slurm-include", str(include))
    assert said.endswith("ended with code 4: a.c:1: error: no slurm")


def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left(
    include: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'while [ "$1" != -o ]; do shift; done; : >"$2"'
    program(tmp_path, "cc", script)
    monkeypatch.setenv("CC", f"{tmp_path}/cc")
    target = tmp_path / "none" / "x.so"
    said = refused("build", "--slurm-include", str(include), "-o", str(target))
    assert f"cannot write {target}" in said
    (tmp_path / "own").mkdir()
    target = tmp_path / "own" / "x.so"
    words = ["build", "--slurm-include", str(include), "-o", str(target)]
    assert command.main(words) == 0
    assert [file.name for file in target.parent.iterdir()] == ["x.so"]
