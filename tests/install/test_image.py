"""gangstart plugin install on machines that are not as one would like them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gangstart.errors import GangstartError
from gangstart.plugin import apply, image, place
from install.site import CONF, LIB, LINE, MANIFEST, PLUGIN, STACK, TWO_FILES, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine in a folder that has neighbours."""
    (tmp_path / "image").mkdir()
    return Machine(tmp_path / "image")


def linked(machine: Machine, path: str, target: str) -> None:
    """Put an absolute link in a folder's place, and the folder where it leads."""
    (machine.root / path).rmdir()
    (machine.root / path).symlink_to(target)
    (machine.root / target.lstrip("/")).mkdir(parents=True)


def test_a_link_of_an_image_leads_into_the_image(
    machine: Machine, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    linked(machine, "etc/slurm", str(outside))
    linked(machine, LIB, "/opt/slurm/slurm-wlm")
    machine.install()
    machine.install("timeout=60")
    assert list(outside.iterdir()) == []
    inside = str(outside).lstrip("/")
    conf = machine.text(f"{inside}/plugstack.conf.d/gangstart.conf")
    assert f"{PLUGIN} timeout=60\n" in conf
    assert f"opt/slurm/slurm-wlm/{PLUGIN}" in machine.files()
    ran = machine.plugin("uninstall")
    assert (ran.returncode, machine.files()) == (0, {LIB}), ran.stdout  # the link


@pytest.mark.parametrize(
    ("links", "asked", "found"),
    [
        ({}, "/etc/slurm", "etc/slurm"),
        ({}, "/etc/../../../x", "x"),
        ({"etc": "/"}, "/etc/slurm", "slurm"),
        ({"etc": "../../.."}, "/etc/slurm", "slurm"),
        ({"etc": "conf", "conf": "/opt/./etc/"}, "/etc/slurm", "opt/etc/slurm"),
    ],
)
def test_links_are_followed_as_the_machine_would(
    tmp_path: Path, links: dict[str, str], asked: str, found: str
) -> None:
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    assert image.below(tmp_path, Path(asked)) == tmp_path / found


def test_links_in_a_circle_are_said(tmp_path: Path) -> None:
    (tmp_path / "etc").symlink_to("/etc")
    with pytest.raises(GangstartError, match="links in a circle"):
        image.below(tmp_path, Path("/etc/slurm"))


@pytest.mark.parametrize(
    "line", ["optional\t{}\ttimeout=30 # by ops\r\n", "required {}"]
)
def test_a_line_that_says_it_already_is_not_touched(
    machine: Machine, line: str
) -> None:
    machine.write(STACK)
    stack = machine.root / STACK
    stack.write_bytes(line.format(PLUGIN).encode())
    machine.install()
    assert stack.read_bytes() == line.format(PLUGIN).encode()


def test_the_comment_and_the_end_of_a_line_stay(machine: Machine) -> None:
    stack = machine.write(STACK)
    stack.write_bytes(f"optional\t{PLUGIN} timeout=30 # by ops\r\n".encode())
    machine.install("timeout=40")
    expected = f"optional {PLUGIN} timeout=40 # by ops\r\n"
    assert stack.read_bytes() == expected.encode()


def test_a_folder_that_is_included_twice_is_not_used(machine: Machine) -> None:
    machine.write(
        STACK, "include plugstack.conf.d/*", "include plugstack.conf.d/*.conf"
    )
    machine.install()
    machine.install()
    assert machine.order() == [PLUGIN]


def test_a_required_line_that_stays_keeps_the_files(machine: Machine) -> None:
    machine.write(STACK, f"required {PLUGIN}")
    machine.install()
    ran = machine.plugin("uninstall")
    assert ran.returncode == 1
    assert "line 1 says required" in ran.stderr
    assert machine.files() > TWO_FILES
    machine.write(STACK, "# no longer")
    assert machine.plugin("uninstall").returncode == 0
    assert machine.files() == {STACK}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--libdir", "/opt/my dir"), "--libdir '/opt/my dir' cannot be written"),
        (("--libdir", "/opt/a#b"), "no blanks, quotes or '#'"),
        (("--libdir", "/../out"), "is no absolute path without .."),
        (("--conf-dir", "/etc/../../out"), "is no absolute path without .."),
        (("--root", ""), "--root '' is no folder"),
        (("--root", "/etc/passwd"), "--root '/etc/passwd' is no folder"),
        (("--plugin", "/dev/zero"), "/dev/zero is no SPANK plugin"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    machine: Machine, words: tuple[str, ...], told: str
) -> None:
    ran = machine.plugin("install", *words)
    assert ran.returncode in (1, 2)
    assert told in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert machine.files() == set()


@pytest.mark.parametrize("name", ["relative", "/../../outside", "/nul\0byte"])
def test_a_record_with_strange_paths_is_refused(machine: Machine, name: str) -> None:
    told = {"files": {name: "0"}, "folders": [], "includes": {}}
    machine.write(MANIFEST, json.dumps(told))
    for verb in ("install", "uninstall"):
        ran = machine.plugin(verb)
        assert ran.returncode == 1
        assert "is no record of an installation" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_four_at_once_are_one_installation(machine: Machine) -> None:
    command = [sys.executable, "-m", "gangstart", "plugin", "install"]
    where = ["--root", str(machine.root), "--release", LINE]
    running = [
        subprocess.Popen([*command, *where, f"timeout={n}"], stdout=subprocess.PIPE)
        for n in range(61, 65)
    ]
    for one in running:
        one.communicate(timeout=100)
    assert [one.returncode for one in running] == [0, 0, 0, 0]
    assert machine.files() == TWO_FILES | {CONF, STACK, MANIFEST}
    assert machine.plugin("uninstall").returncode == 0
    assert machine.files() == set()


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the n-th file that is renamed into place be the last thing that is done."""
    left = [0]
    real = apply.rewrite

    def rewrite(target: Path, content: bytes, mode: int) -> None:
        if left[0] == 0:
            target.with_name(f".{target.name}.0123abcd").write_bytes(content[:9])
            raise KeyboardInterrupt
        left[0] -= 1
        real(target, content, mode)

    monkeypatch.setattr(apply, "rewrite", rewrite)
    return left


@pytest.mark.parametrize("step", range(1, 9))
def test_what_was_cut_off_can_be_taken_back_or_finished(
    machine: Machine, killed: list[int], step: int
) -> None:
    from gangstart.plugin import install  # noqa: PLC0415

    killed[0] = step
    try:
        install.main(["--root", str(machine.root), "--release", LINE])
    except KeyboardInterrupt:
        ran = machine.plugin("uninstall")
        assert ran.returncode == 0, ran.stdout
    else:
        assert step == 8, "install writes fewer files than this test thinks"
    machine.install()
    assert machine.files() == TWO_FILES | {CONF, STACK, MANIFEST}
    assert machine.plugin("uninstall").returncode == 0
    assert machine.files() == set()


def test_a_second_command_says_whom_it_waits_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "LOCK_S", 0.0)
    where = place.Place(machine.root, machine.root, machine.root)
    with (
        apply.alone(where),
        pytest.raises(GangstartError, match="lslocks names it"),
        apply.alone(where),
    ):
        pass
