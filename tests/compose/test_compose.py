"""docker-compose.yml as its document shows it: every command there is run here."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from compose.conftest import documented
from compose.machine import until

if TYPE_CHECKING:
    from compose.conftest import Stack

#: The first test waits for the images and the cluster.
pytestmark = [pytest.mark.compose, pytest.mark.timeout(1500)]

GOOD = "docker compose exec login srun -N3 --gang-start hostname"
REFUSED = "docker compose exec login srun -N3 --gang-start=10 hostname"
SACCT = "docker compose exec login sacct --format=JobID,JobName,NNodes,State,ExitCode"
NODES = {"n1", "n2", "n3"}
#: SlurmdTimeout and the like do not come into it: the launch itself finds n3 gone.
REFUSAL_TAKES_AT_MOST = 40
BATCH = r"""printf '#!/bin/sh\nsrun --gang-start id -un\nexec sleep 300\n' >batch.sh &&
sbatch --parsable -N2 -o batch.out batch.sh"""

#: Folders of jobs and steps, and processes of the user.
LEFT = """find /var/spool/slurmd /run/gangstart -mindepth 1 -type d
find /proc -maxdepth 1 -user user -name '[0-9]*'"""


def test_every_service_is_healthy_and_none_is_privileged(stack: Stack) -> None:
    def healthy() -> bool:
        states = [c["State"] for c in stack.containers()]
        return all(s["Health"]["Status"] == "healthy" for s in states)

    stack.type("docker compose ps")
    until("every service healthy", 60, healthy)
    found = stack.containers()

    assert len(found) == 10
    assert not any(c["HostConfig"]["Privileged"] for c in found)
    assert all(c["HostConfig"]["CapDrop"] == ["ALL"] for c in found)
    added = {c["Config"]["Hostname"] for c in found if c["HostConfig"]["CapAdd"]}
    assert added == NODES


def test_a_start_on_three_nodes_says_so(stack: Stack) -> None:
    done = stack.type(GOOD)

    assert re.search(r"^gang-start: 3/3 tasks on 3/3 nodes in ", done.stderr)
    assert set(done.stdout.split()) == NODES


def test_the_report_is_on_the_login_node(stack: Stack) -> None:
    done = stack.type("docker compose exec login gangstart report 1")

    assert "gang-start: 3/3 tasks on 3/3 nodes" in done.stdout
    assert "/var/lib/gangstart/1.0/start.json" in done.stdout, "from the archive"


def test_accounting_has_the_job_and_the_cluster(stack: Stack) -> None:
    def row() -> bool:
        shown = stack.type(SACCT).stdout
        return re.search(r"^1\.0 +hostname +3 +COMPLETED +0:0", shown, re.M) is not None

    until("a row of step 1.0 in sacct", 30, row)
    clusters = stack.type("docker compose exec login sacctmgr show cluster").stdout

    assert re.search(r"^ +compose +10\.", clusters, re.M)


def test_a_compute_node_has_two_files_and_no_python(stack: Stack) -> None:
    look = "find /usr /opt /etc -name '*gangstart*'; command -v python3 || echo none"
    found = stack.compose("exec", "n1", "sh", "-c", look).stdout.split()

    assert sorted(path.rpartition("/")[2] for path in found) == [
        "gangstart-probe",
        "gangstart.conf",
        "none",
        "spank_gangstart.so",
    ]


def test_the_munge_key_is_nowhere_but_on_its_own_volume(stack: Stack) -> None:
    def mounts(volume: str) -> set[str]:
        return {
            container["Config"]["Labels"]["com.docker.compose.service"]
            for container in stack.containers()
            for mount in container["Mounts"]
            if mount.get("Name", "").endswith(f"_{volume}")
        }

    assert mounts("munge-key") == {"munge"}
    for service in ("slurmctld", "n1", "login"):
        look = "ls /etc/munge/munge.key"
        assert stack.compose("exec", service, "sh", "-c", look, check=False).returncode


def test_a_node_that_is_off_is_named_and_back_it_works(stack: Stack) -> None:
    stack.type("docker compose stop n3")
    begun = time.monotonic()
    refused = stack.type(REFUSED, check=False)
    took = time.monotonic() - begun
    stack.type("docker compose start n3")
    again = stack.compose("exec", "login", "srun", "-N3", "--gang-start", "hostname")

    assert refused.returncode == 75, refused.stderr
    assert took < REFUSAL_TAKES_AT_MOST
    assert re.search(r"refused after .*: 1 of 3 nodes is not ready", refused.stderr)
    assert re.search(r"^  n3 +rank 2 +never connected", refused.stderr, re.M)
    assert not re.search(r"^  n[12] ", refused.stderr, re.M)
    assert refused.stdout == ""
    assert set(again.stdout.split()) == NODES


def test_a_cancelled_batch_job_leaves_nothing_on_its_nodes(stack: Stack) -> None:
    def on_login(command: str) -> str:
        return stack.compose("exec", "login", "bash", "-c", command).stdout

    def spools() -> str:
        look = ("sh", "-c", LEFT)
        shown = [stack.compose("exec", n, *look).stdout for n in ("n1", "n2")]
        return "".join(shown)

    job = on_login(BATCH).strip()
    said = "cat batch.out 2>/dev/null || true"
    until("the gang start in the job", 60, lambda: "user\n" in on_login(said))
    assert "gang-start: 2/2 tasks on 2/2 nodes" in on_login(said)
    on_login(f"scancel {job}")

    until("the job's end", 60, lambda: on_login(f"squeue -h -j {job}") == "")
    until("empty spools, no processes", 60, lambda: spools() == "")
    assert f"/var/lib/gangstart/{job}.0/" in on_login(f"gangstart report {job}")


def test_prometheus_has_its_targets(stack: Stack) -> None:
    ask = (
        "docker compose exec prometheus promtool query instant http://localhost:9090 up"
    )

    def jobs() -> set[str]:
        answer = stack.type(ask).stdout
        return set(re.findall(r'job="(\w+)"} => 1 ', answer))

    until("both targets up", 60, lambda: jobs() == {"prometheus", "machine"})


def test_what_else_the_document_shows_works_and_down_leaves_nothing(
    stack: Stack,
) -> None:
    stack.type("docker compose logs slurmctld")
    stack.type("docker compose exec login bash")
    stack.type("docker compose up -d --build", within=300)
    stack.type("docker compose down -v", within=120)

    assert stack.left() == {"container": [], "network": [], "volume": []}
    assert set(documented()) == stack.ran
