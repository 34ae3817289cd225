"""gangstart plugin install and uninstall, on a machine in a folder."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from install.site import (
    BUILT,
    CONF,
    LIB,
    MANIFEST,
    PACKAGE,
    PLUGIN,
    PROBE,
    STACK,
    TWO_FILES,
    Machine,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with Debian's folders of Slurm, and nothing in them."""
    return Machine(tmp_path)


def our_line(machine: Machine, path: str = CONF) -> str:
    """The one line that Slurm would read."""
    lines = machine.text(path).splitlines()
    (found,) = [li for li in lines if not li.startswith("#") and PLUGIN in li]
    return found


def test_two_files_a_line_and_a_record_are_all_there_is(machine: Machine) -> None:
    machine.install()
    assert machine.files() == TWO_FILES | {CONF, STACK, MANIFEST}
    for name in (PLUGIN, PROBE):
        there = machine.root / LIB / name
        built = BUILT if name == PLUGIN else PACKAGE / name
        assert there.read_bytes() == built.read_bytes()
        assert there.stat().st_mode & 0o777 == 0o755
    assert our_line(machine) == f"optional {PLUGIN}"
    assert machine.order() == [PLUGIN]


def test_it_can_be_installed_again_and_nothing_changes(machine: Machine) -> None:
    machine.install("auto=gpu", "timeout=300")
    before = {p: (machine.root / p).stat().st_ino for p in machine.files()}
    told = machine.install()
    before.pop(MANIFEST)
    assert {p: (machine.root / p).stat().st_ino for p in before} == before
    assert told.count(": unchanged\n") == 3
    assert our_line(machine) == f"optional {PLUGIN} auto=gpu timeout=300"


def test_a_key_that_is_given_changes_and_the_others_stay(machine: Machine) -> None:
    machine.install("auto=gpu", "timeout=300")
    path = machine.root / CONF
    path.write_text("# ours, do not touch\n" + path.read_text())
    told = machine.install("timeout=60")
    assert f"-optional {PLUGIN} auto=gpu timeout=300\n" in told
    assert f"+optional {PLUGIN} auto=gpu timeout=60\n" in told
    assert machine.text(CONF).startswith("# ours, do not touch\n")


def test_a_dry_run_shows_the_same_and_writes_nothing(machine: Machine) -> None:
    shown = machine.install("--dry-run", "auto=gpu")
    assert machine.files() == set()
    done = machine.install("auto=gpu")
    assert shown.replace("nothing was changed (--dry-run)\n", "") == done
    assert f"+optional {PLUGIN} auto=gpu\n" in done
    assert f"{LIB}/{PLUGIN}: new, " in done


def test_the_file_of_a_running_step_is_replaced_and_not_overwritten(
    machine: Machine,
) -> None:
    machine.install()
    path = machine.root / LIB / PLUGIN
    with path.open("rb") as mapped:
        before = path.stat().st_ino
        path.chmod(0o755)
        path.with_name("new").write_bytes(path.read_bytes() + b"\0")
        other = machine.install("--plugin", str(path.with_name("new")))
        assert ": replaced, " in other
        assert path.stat().st_ino != before
        digest = hashlib.sha256(mapped.read()).hexdigest()
    assert digest == hashlib.sha256(BUILT.read_bytes()).hexdigest()
    assert not list((machine.root / LIB).glob(".*"))


def test_a_file_of_somebody_else_is_not_taken_over_unasked(machine: Machine) -> None:
    theirs = machine.write(f"{LIB}/{PROBE}", "theirs")
    ran = machine.plugin("install")
    assert ran.returncode == 1
    assert f"/{LIB}/{PROBE} was not written by this command" in ran.stderr
    assert "--replace" in ran.stderr
    assert machine.files() == {f"{LIB}/{PROBE}"}
    machine.install("--replace")
    assert theirs.read_bytes() == (PACKAGE / PROBE).read_bytes()


PYXIS = "required /usr/local/lib/slurm/spank_pyxis.so"


@pytest.mark.parametrize(
    ("stack", "part", "ours"),
    [
        ((PYXIS,), None, CONF),
        (("include /etc/slurm/plugstack.conf.d/*",), "pyxis.conf", "zz-gangstart.conf"),
        (("include plugstack.conf.d/*.conf",), "pyxis.conf", "zz-gangstart.conf"),
        (("include plugstack.conf.d/*.conf",), "enroot.conf", CONF),
        (
            ("include /etc/slurm/plugstack.conf.d/*.conf", PYXIS),
            None,
            "plugstack.gangstart.conf",
        ),
    ],
)
def test_it_comes_after_plugins_that_start_containers(
    machine: Machine, stack: tuple[str, ...], part: str | None, ours: str
) -> None:
    machine.write(STACK, *stack)
    if part:
        machine.write(f"etc/slurm/plugstack.conf.d/{part}", PYXIS)
    machine.install()
    assert machine.order() == ["spank_pyxis.so", PLUGIN]
    assert [path for path in machine.files() if path.endswith(ours)]
    assert machine.install().count(": unchanged\n") == 3


def test_a_container_plugin_that_came_later_is_followed(machine: Machine) -> None:
    machine.write(STACK, "include /etc/slurm/plugstack.conf.d/*.conf")
    machine.install("auto=gpu")
    machine.write("etc/slurm/plugstack.conf.d/pyxis.conf", PYXIS)
    assert machine.order() == [PLUGIN, "spank_pyxis.so"]
    machine.install()
    assert machine.order() == ["spank_pyxis.so", PLUGIN]
    assert our_line(machine, "etc/slurm/plugstack.conf.d/zz-gangstart.conf").endswith(
        " auto=gpu"
    )
    assert CONF not in machine.files()


def test_a_line_that_somebody_wrote_is_set_where_it_is_and_left(
    machine: Machine,
) -> None:
    theirs = f"optional /opt/g/{PLUGIN} slack=1"
    machine.write(STACK, "# site", theirs, "optional other.so")
    machine.install("auto=gpu")
    assert machine.order() == [PLUGIN, "other.so"]
    assert our_line(machine, STACK) == f"optional /opt/g/{PLUGIN} slack=1 auto=gpu"
    assert {f"opt/g/{PLUGIN}", f"opt/g/{PROBE}"} <= machine.files()
    ran = machine.plugin("uninstall")
    assert ran.returncode == 1
    assert f"left: /{STACK} line 2: optional /opt/g/{PLUGIN} slack=1" in ran.stdout
    assert machine.files() == {STACK}


def test_what_is_listed_twice_is_refused(machine: Machine) -> None:
    machine.write(STACK, f"optional {PLUGIN}", f"optional {PLUGIN}")
    ran = machine.plugin("install")
    assert ran.returncode == 1
    assert f"it is listed 2 times, /{STACK} line 1 and /{STACK} line 2" in ran.stderr
    assert machine.files() == {STACK}


def test_uninstall_leaves_nothing(machine: Machine) -> None:
    before = machine.folders()
    machine.install("auto=gpu")
    machine.install("auto=never")
    ran = machine.plugin("uninstall")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert machine.files() == set()
    assert machine.folders() == before
    again = machine.plugin("uninstall")
    assert again.returncode == 0
    assert "has installed nothing here" in again.stdout


def test_uninstall_gives_plugstack_conf_back_as_it_was(machine: Machine) -> None:
    stack = machine.write(STACK, "# site", "optional other.so")
    stack.chmod(0o640)
    machine.install()
    assert stack.stat().st_mode & 0o777 == 0o640
    machine.plugin("uninstall")
    assert stack.read_text() == "# site\noptional other.so\n"


def test_what_was_changed_since_is_left_and_named(machine: Machine) -> None:
    machine.install()
    conf = machine.root / CONF
    conf.write_text(conf.read_text() + "# a note\n")
    probe = machine.root / LIB / PROBE
    probe.write_bytes(b"another")
    ran = machine.plugin("uninstall")
    assert ran.returncode == 1
    assert f"left: /{LIB}/{PROBE}, changed since it was installed" in ran.stdout
    assert f"left: /{CONF}, without the plugin's line" in ran.stdout
    assert machine.files() == {CONF, f"{LIB}/{PROBE}"}
    assert "# a note" in machine.text(CONF)
    assert machine.order() == []


def test_an_uninstall_can_be_tried(machine: Machine) -> None:
    machine.install()
    before = machine.files()
    ran = machine.plugin("uninstall", "--dry-run")
    assert f"/{LIB}/{PLUGIN}: removed" in ran.stdout
    assert machine.files() == before


def test_only_the_two_files(machine: Machine) -> None:
    machine.install("--files-only")
    assert machine.files() == TWO_FILES | {MANIFEST}


def test_files_outside_of_plugindir_are_named_with_their_path(
    machine: Machine,
) -> None:
    machine.install("--libdir", "/opt/gangstart")
    assert our_line(machine) == f"optional /opt/gangstart/{PLUGIN}"
    assert {f"opt/gangstart/{PLUGIN}", f"opt/gangstart/{PROBE}"} <= machine.files()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("timeout=0",), "timeout=0"),
        (("colour=red",), "colour"),
        (("--libdir", "lib"), "no absolute path"),
        (("--release", "30.01"), "has no plugin for Slurm 30.01"),
        (
            ("--plugin", str(BUILT), "--release", "24.11"),
            "for Slurm 22.05, and here is 24.11",
        ),
        (("--release", "soon"), "no Slurm version"),
        (("--plugin", "/nowhere"), "No such file"),
        (("--plugin", "/etc/hosts"), "is no SPANK plugin"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    machine: Machine, words: tuple[str, ...], said: str
) -> None:
    ran = machine.plugin("install", *words)
    assert ran.returncode in (1, 2)
    assert ran.stderr.startswith("gangstart: ")
    assert ran.stderr.count("\n") == 1
    assert said in ran.stderr
    assert machine.files() == set()


def test_a_machine_without_slurm_says_how_to_go_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "etc/slurm").rmdir()
    ran = machine.plugin("install")
    assert "no Slurm configuration" in ran.stderr
    assert "--conf-dir" in ran.stderr


def test_a_record_that_cannot_be_read_is_said(machine: Machine) -> None:
    machine.install()
    (machine.root / MANIFEST).write_text("[]")
    ran = machine.plugin("uninstall")
    assert ran.returncode == 1
    assert f"{MANIFEST} is no record" in ran.stderr


def test_the_record_names_what_was_written(machine: Machine) -> None:
    machine.install()
    told = json.loads(machine.text(MANIFEST))
    assert set(told["files"]) == {f"/{path}" for path in TWO_FILES | {CONF}}
    assert told["includes"] == {f"/{STACK}": f"include /{CONF}"}
