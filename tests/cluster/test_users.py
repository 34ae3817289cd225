"""An ordinary user, and the secret that nobody gets to see."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import Gang, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster

TWO_EACH = ("-N4", "--ntasks-per-node=2")


@pytest.fixture(scope="module")
def user() -> Iterator[str]:
    """Make an ordinary user, and remove it in the end."""
    if os.getuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("needs root and useradd to make an ordinary user")
    name = f"ct{os.getpid()}"
    subprocess.run(["useradd", "-m", name], check=True, timeout=30)
    yield name
    quiet = subprocess.DEVNULL
    subprocess.run(["userdel", "-r", name], check=True, timeout=30, stderr=quiet)


@pytest.fixture
def own(gang: Gang, user: str) -> Gang:
    """Run steps as the ordinary user."""
    return Gang(gang.cluster, gang.folder, gang.watch, user)


def test_an_ordinary_user_starts_a_gang(own: Gang) -> None:
    ran = own.srun(*TWO_EACH, "--gang-start=20", "sh", "-c", "echo $RANK $(id -un)")
    assert ran.code == 0, ran.err
    assert ran.rows == [[str(rank), own.user] for rank in range(8)]
    archived = own.archived(own.copies()[-1]["step"]["name"])
    assert archived["step"]["user_id"] != 0


def test_an_ordinary_users_start_is_refused_as_well(own: Gang) -> None:
    env = {"MASTER_PORT": "22"}
    ran = own.srun(*TWO_EACH, "--gang-start=20", *own.trace(), env=env)
    assert ran.code == 78
    assert "MASTER_PORT='22'" in "\n".join(ran.told)
    assert own.started() == []


def test_the_folders_of_a_step_belong_to_root_and_to_the_user(own: Gang) -> None:
    show = 'cd ${GANGSTART_REPORT%/sys/*} && stat -c "%n %U %a" . sys user'
    ran = own.srun("-n1", "--gang-start=20", "sh", "-c", show)
    assert ran.out.splitlines() == [
        ". root 755",
        "sys root 755",
        f"user {own.user} 755",
    ]


def test_the_user_can_neither_forge_nor_remove_a_report(own: Gang) -> None:
    forge = (
        "d=${GANGSTART_REPORT%/start.json}; "
        "while [ ! -e $GANGSTART_REPORT ]; do sleep 0.05; done; "
        "touch $d/x 2>/dev/null && echo could touch; "
        "rm -f $d/start.json 2>/dev/null && echo could remove; "
        "ln -s /etc/passwd $d/../user/start.json && echo linked"
    )
    ran = own.srun("-n1", "--gang-start=20", "sh", "-c", forge)
    assert ran.out == "linked\n", ran.err
    copy = own.copies()[-1]
    step = copy["step"]["name"]
    assert own.archived(step) == copy
    inside = own.cluster.directory / "archive" / step
    assert list(inside.glob("*/user/*")) == [], "a link is not followed"


def secret_of(gang: Gang) -> tuple[str, str]:
    """Return the whole text that srun sent to the nodes, and the key in it."""
    text = (gang.folder / "secret").read_text()
    key = re.search(r":([0-9a-f]{32,}):", text)
    assert key is not None
    return text, key[1]


def holders(gang: Gang, key: str) -> list[str]:
    """List the processes in the cluster that show the key."""
    found = []
    for pid in gang.strangers():
        for name in ("environ", "cmdline"):
            try:
                shown = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            if key.encode() in shown:
                found.append(f"{name} of {pid}")
    return found


def test_the_secret_is_seen_nowhere(gang: Gang, user: str, saboteur: str) -> None:
    # The saboteur, with root's rights in slurmstepd, tells which secret to look for.
    late, go = gang.folder / "late", gang.folder / "go"
    own = Gang(gang.cluster, gang.folder, gang.watch, user)
    env = {
        "SABOTEUR_HOOK": "task_init",
        "SABOTEUR_WHO": ",0,",
        "SABOTEUR_DOES": f"hold={late}",
    }
    show = f"env; cat /proc/self/environ; while [ ! -e {go} ]; do sleep 0.05; done"
    with gang.plugstack(f"{saboteur} leak={gang.folder}", "{ours}"):
        options = [*TWO_EACH, "--gang-start=60", "-v"]
        running = own.start(["srun", *options, "sh", "-c", show], env=env)
        gang.until_waiting(7)
        text, key = secret_of(gang)
        (gang.folder / "secret").unlink()
        assert holders(gang, key) == [], "while the tasks wait"
        late.touch()
        until(lambda: len(gang.reports()) == 4, "the start")
        assert holders(gang, key) == [], "while the tasks run"
        reports = str(gang.reports())
        go.touch()
        ran = running.wait()
        assert ran.code == 0, ran.err
    assert key not in ran.out + ran.err + reports
    assert "SLURM_GANG_RDZV" not in ran.out + reports
    assert text not in ran.err
    archived = gang.archived(own.copies()[-1]["step"]["name"])
    assert key not in str(archived)
    for path in gang.cluster.directory.glob("log/*"):
        assert key not in path.read_text(errors="replace"), path
