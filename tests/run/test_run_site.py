"""The site's defaults in plugstack.conf, under the environment's and the flag's."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest
from gangstart.errors import GangstartError
from gangstart.run.command import spec_of
from run.mpitools import MPIS, Mpi, why_not

if TYPE_CHECKING:
    from pathlib import Path

reason = cache(why_not)

#: A rank's MASTER_PORT, and where its gangstart run listens (/proc/net/tcp: state 0A).
LISTENS = """
import os
def sockets(pid):
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    return found
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
own, above = sockets(os.getppid()), parent(os.getppid())
while above > 1:  # MPICH's mpiexec leaves its own to the ranks
    own -= sockets(above)
    above = parent(above)
ports = [os.environ["MASTER_PORT"]]
for name in ("tcp", "tcp6"):
    for line in list(open(f"/proc/net/{name}"))[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in own:
            ports.append(str(int(words[1].rpartition(":")[2], 16)))
os.write(1, (os.environ["RANK"] + " " + " ".join(ports) + "\\n").encode())
"""


def site(folder: Path, arguments: str) -> dict[str, str]:
    """An environment whose Slurm has this line in plugstack.conf."""
    line = f"optional /usr/lib/spank_gangstart.so {arguments}\n"
    (folder / "plugstack.conf").write_text(line)
    return {"SLURM_CONF": str(folder / "slurm.conf")}


def test_flag_wins_over_environment_over_site(tmp_path: Path) -> None:
    env = site(tmp_path, "timeout=7 slack=3 ports=20000-20100 conf=none")
    env["SLURM_GANG_START"] = "timeout=8"

    assert spec_of(None, env).timeout_s == 8
    assert spec_of("timeout=9", env).timeout_s == 9
    assert spec_of(None, env).slack_s == 3
    assert (spec_of(None, env).ports, spec_of(None, env).conf) == ((20000, 20100), "")


def test_a_mistake_of_the_sites_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(GangstartError, match=r"plugstack\.conf: timeout=never"):
        spec_of("60", site(tmp_path, "timeout=never"))


def test_without_a_plugstack_nothing_changes(tmp_path: Path) -> None:
    env = {"SLURM_CONF": str(tmp_path / "slurm.conf")}

    assert spec_of(None, env).timeout_s == 120
    assert spec_of(None, env).conf is None


@pytest.mark.parametrize("name", MPIS)
def test_every_port_of_a_start_is_one_that_the_site_allows(
    tmp_path: Path, name: str
) -> None:
    if reason(name):
        pytest.skip(reason(name))
    mpi = Mpi(name, tmp_path, site(tmp_path, "ports=23100-23149"))
    done = mpi.run(2, "timeout=40", sys.executable, "-c", LISTENS)
    assert done.code == 0, done.err
    told = {words[0]: words[1:] for words in map(str.split, done.out.splitlines())}

    assert len(told["0"]) == 2, "MASTER_PORT, and the one of the lines between ranks"
    assert told["1"] == told["0"][:1]
    assert all(23100 <= int(port) <= 23149 for port in told["0"])
    assert len(set(told["0"])) == 2
