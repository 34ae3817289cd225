"""The packages that make deb and make rpm have built, installed for real."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from repo import ROOT, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIST = ROOT / "dist"
VERSION = re.findall(r'^version = "(.+)"$', text(ROOT / "pyproject.toml"), re.M)[0]
#: What the packages depend on, and the Slurm that they are for.
NEEDED = (
    "python3,python3-cffi-backend,python3-jinja2,python3-rich,slurm-client,slurmd,mawk"
)
#: Made by dpkg itself.
LOGS = ("var/lib/dpkg/", "var/log/", "var/cache/")


def run(*command: str | Path, seconds: float = 100) -> subprocess.CompletedProcess[str]:
    """Run a command as a machine without a terminal does."""
    return subprocess.run(
        [str(word) for word in command],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def packages(pattern: str, verb: str) -> list[Path]:
    """Files of this version; skips if they have not been built."""
    found = sorted(DIST.glob(pattern))
    if len(found) != 2:
        pytest.skip(f"no packages of {VERSION} in dist/: make {verb} first")
    return found


@pytest.fixture(scope="module")
def base() -> Path:
    """A Debian with Slurm's commands and Python, and nothing of ours; kept."""
    if os.getuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("needs root and mmdebstrap (apt-get install mmdebstrap)")
    key = sha256(NEEDED.encode()).hexdigest()[:12]  # another list is another root
    folder = Path(f"/var/cache/gangstart/roots/packages-bookworm-{key}")
    if not (folder / "usr/bin/srun").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = run(
            "mmdebstrap",
            "--variant=minbase",
            f"--include={NEEDED}",
            "bookworm",
            folder,
            seconds=900,
        )
        if made.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"mmdebstrap: {made.stderr.strip().splitlines()[-1]}")
    return folder


@pytest.fixture
def machine(base: Path, tmp_path: Path) -> Iterator[Path]:
    """The same, to be changed: what is written goes to a folder of the test's."""
    upper, work, top = (tmp_path / name for name in ("upper", "work", "top"))
    for folder in (upper, work, top):
        folder.mkdir()
    options = f"lowerdir={base},upperdir={upper},workdir={work}"
    done = run("mount", "-t", "overlay", "overlay", "-o", options, top)
    if done.returncode != 0:
        pytest.skip(f"no overlay file system here: {done.stderr.strip()}")
    yield top
    run("umount", top)


def traces(machine: Path) -> set[str]:
    """Everything on the machine but dpkg's own records."""
    found = (str(p.relative_to(machine)) for p in machine.rglob("*"))
    return {name for name in found if not name.startswith(LOGS)}


@pytest.mark.timeout(1200)
def test_the_packages_install_work_and_leave_nothing(machine: Path) -> None:
    files = packages(f"gangstart*_{VERSION}_*.deb", "deb")
    before = traces(machine)
    for file in files:
        shutil.copy2(file, machine / "mnt")
    names = [f"/mnt/{file.name}" for file in files]
    done = run("chroot", machine, "dpkg", "-i", *names)
    assert done.returncode == 0, done.stdout + done.stderr
    link = machine / "usr/lib/gangstart/spank_gangstart.so"
    assert str(link.readlink()) == "slurm-22.05/spank_gangstart.so"
    # The probe, the command and the option work there.
    told = run("chroot", machine, "/usr/lib/gangstart/gangstart-probe", "--version")
    assert told.stdout == f"gangstart-probe {VERSION}\n"
    told = run("chroot", machine, "gangstart", "--version")
    assert (told.stdout, told.stderr) == (f"gangstart {VERSION}\n", "")
    checks = run("chroot", machine, "gangstart", "check", "--explain", "leftover_gpu")
    assert checks.returncode == 0, checks.stderr
    there = run("chroot", machine, "gangstart", "plugin", "path")
    assert (machine / there.stdout.strip().lstrip("/")).is_file() or there.stdout
    # A key is set where the package has put the line.
    words = ["plugin", "install", "--conf-dir", "/etc/slurm", "auto=gpu"]
    changed = run("chroot", machine, "gangstart", *words)
    assert changed.returncode == 0, changed.stderr
    listed = machine / "etc/slurm/plugstack.conf.d/zz-gangstart.conf"
    assert f"optional /{link.relative_to(machine)} auto=gpu\n" in listed.read_text()
    undone = run("chroot", machine, "gangstart", "plugin", "uninstall")
    assert "left: /etc/slurm/plugstack.conf.d/zz-gangstart.conf" in undone.stdout
    conf = machine / "etc/slurm/slurm.conf"
    conf.write_text("ClusterName=c\nSlurmctldHost=h\nNodeName=n1\n")
    shown = run("chroot", machine, "srun", "--help")
    assert "--gang-start" in shown.stdout, shown.stderr
    conf.unlink()
    # What nodes need is a package of its own that needs nothing else.
    depends = run("dpkg-deb", "-f", files[0], "Depends").stdout
    assert re.fullmatch(r"libc6 \([^)]*\)\n", depends), depends
    purge = ["dpkg", "--purge", "gangstart", "gangstart-spank"]
    done = run("chroot", machine, *purge)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    for file in files:
        (machine / "mnt" / file.name).unlink()
    assert traces(machine) - before == set()
    assert before - traces(machine) == set()


@pytest.mark.timeout(1200)
def test_the_plugin_is_chosen_again_when_slurm_is_another(machine: Path) -> None:
    files = packages(f"gangstart*_{VERSION}_*.deb", "deb")
    spank = next(file for file in files if "-spank_" in file.name)
    shutil.copy2(spank, machine / "mnt")
    slurmd = machine / "usr/sbin/slurmd"
    slurmd.unlink()
    slurmd.write_text("#!/bin/sh\necho slurm 99.01.0\n")
    slurmd.chmod(0o755)
    done = run("chroot", machine, "dpkg", "-i", f"/mnt/{spank.name}")
    assert done.returncode == 0, done.stderr
    assert "there is no plugin for Slurm 99.01" in done.stderr
    link = machine / "usr/lib/gangstart/spank_gangstart.so"
    assert not link.is_symlink()
    slurmd.write_text("#!/bin/sh\necho slurm-wlm 22.05.8\n")
    trigger = ["dpkg-trigger", "--by-package=slurmd", "/usr/sbin/slurmd"]
    done = run("chroot", machine, *trigger)
    assert done.returncode == 0, done.stderr
    run("chroot", machine, "dpkg", "--triggers-only", "gangstart-spank")
    assert str(link.readlink()) == "slurm-22.05/spank_gangstart.so"


def test_the_rpm_packages_hold_what_they_should() -> None:
    files = packages(f"gangstart*-{VERSION}-*.rpm", "rpm")
    if shutil.which("rpm") is None:
        pytest.skip("needs rpm (apt-get install rpm)")
    listed = {
        file.name.split(f"-{VERSION}")[0]: run("rpm", "-qpl", file).stdout.split()
        for file in files
    }
    spank = listed["gangstart-spank"]
    assert "/usr/lib/gangstart/gangstart-probe" in spank
    assert "/usr/lib/gangstart/slurm-22.05/spank_gangstart.so" in spank
    assert "/etc/slurm/plugstack.conf.d/zz-gangstart.conf" in spank
    assert not [name for name in spank if name.endswith(".py")]
    assert "/usr/bin/gangstart" in listed["gangstart"]
    configs = run("rpm", "-qpc", files[0], files[1]).stdout.split()
    assert configs == ["/etc/slurm/plugstack.conf.d/zz-gangstart.conf"]


EMPTY_SPEC = """Name: slurm-slurmd
Version: 22.05.8
Release: 1
Summary: stands for Slurm's own package
License: none
BuildArch: noarch
%description
Nothing.
%files
"""


def empty_package(folder: Path) -> Path:
    """An rpm with the name of Slurm's own, whose coming is told to ours."""
    (folder / "slurm.spec").write_text(EMPTY_SPEC)
    define = ["--define", f"_topdir {folder}/rpm"]
    built = run("rpmbuild", "-bb", *define, folder / "slurm.spec")
    assert built.returncode == 0, built.stderr
    (found,) = (folder / "rpm").rglob("slurm-slurmd*.rpm")
    return found


@pytest.fixture
def rpm(machine: Path) -> Callable[..., str]:
    """Run rpm and its scripts on the machine; no package of Debian's is known to it."""
    if shutil.which("rpm") is None or shutil.which("rpmbuild") is None:
        pytest.skip("needs rpm and rpmbuild (apt-get install rpm)")

    def ran(*words: str | Path) -> str:
        done = run("rpm", "--root", machine, "--nodeps", *words)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return ran


@pytest.mark.timeout(600)
def test_the_rpm_packages_install_work_and_leave_nothing(
    machine: Path, tmp_path: Path, rpm: Callable[..., str]
) -> None:
    files = packages(f"gangstart*-{VERSION}-*.rpm", "rpm")
    before = traces(machine)
    slurmd = machine / "usr/sbin/slurmd"
    real = slurmd.readlink()
    slurmd.unlink()  # a link, which would lead out of the machine's folder
    slurmd.write_text("#!/bin/sh\necho slurm 99.01.0\n")
    slurmd.chmod(0o755)
    link = machine / "usr/lib/gangstart/spank_gangstart.so"

    told = rpm("--ignorearch", "-iv", *files)
    assert "there is no plugin for Slurm 99.01" in told
    assert not link.is_symlink()

    # Slurm of a release that there is a plugin for comes: it is chosen.
    slurmd.unlink()
    slurmd.symlink_to(real)
    rpm("--ignorearch", "-i", empty_package(tmp_path))
    assert str(link.readlink()) == "slurm-22.05/spank_gangstart.so"
    rpm("-e", "slurm-slurmd")

    # An upgrade runs the old package's scripts after the new one's: the link stays.
    conf = machine / "etc/slurm/plugstack.conf.d/zz-gangstart.conf"
    changed = conf.read_text().replace("gangstart.so", "gangstart.so auto=gpu")
    conf.write_text(changed)
    rpm("--ignorearch", "-U", "--replacepkgs", *files)
    assert str(link.readlink()) == "slurm-22.05/spank_gangstart.so"
    assert conf.read_text() == changed
    probe = "/usr/lib/gangstart/gangstart-probe"
    for program in (probe, "gangstart"):
        name = Path(program).name
        shown = run("chroot", machine, program, "--version")
        assert shown.stdout == f"{name} {VERSION}\n", shown.stderr

    rpm("-e", "gangstart", "gangstart-spank")
    saved = conf.with_name(conf.name + ".rpmsave")
    assert saved.read_text() == changed
    saved.unlink()
    kept = ("var/lib/rpm", "usr/lib/sysimage", "root/.rpmdb")  # rpm's own records
    left = {name for name in traces(machine) - before if not name.startswith(kept)}
    assert left == set()
