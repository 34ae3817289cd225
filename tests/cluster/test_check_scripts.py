"""The scripts of slurm-conf in a real Slurm: who is drained, and what is kept."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import until
from cluster.scripts import CONF, Scripts, Site
from gangstart.cluster import process
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.gang import Gang
    from gangstart.cluster import Spec

    Install = Callable[..., Site]

pytestmark = pytest.mark.cluster

FALLEN_OFF = "NVRM: Xid (PCI:0000:1a:00): 79, pid=7, GPU has fallen off the bus."
BAD = {"ecc_total.1.0": 2}


@pytest.fixture
def scripts(fake_library: Path) -> Iterator[Scripts]:
    """The scripts and fake GPUs; every node sees /var/tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as shared:
        folder = Path(shared)
        folder.chmod(0o755)
        yield Scripts(folder, fake_library)


@pytest.fixture
def install(scripts: Scripts, gang_on: Callable[[Spec], Gang]) -> Install:
    """Bring up a cluster that runs them."""

    def make(*lines: str, hooks: str = "off") -> Site:
        return Site(gang_on(scripts.spec(*lines, hooks=hooks)), scripts)

    return make


@pytest.fixture(scope="module")
def user() -> Iterator[str]:
    """Make an ordinary user, and remove it in the end: root's processes are spared."""
    if os.getuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("needs root and useradd to make an ordinary user")
    name = f"cs{os.getpid()}"
    subprocess.run(["useradd", "-m", name], check=True, timeout=30)
    yield name
    quiet = subprocess.DEVNULL
    subprocess.run(["userdel", "-r", name], check=True, timeout=30, stderr=quiet)


def test_a_bad_gpu_drains_exactly_its_node_and_the_job_is_requeued(
    install: Install,
) -> None:
    site = install()
    site.gpus.set("n1", 1, **BAD)
    ran = site.gang.folder / "ran"
    job = site.batch("-N3", "--requeue", script=f"touch {ran}")
    site.until_drained("n1")
    until(
        lambda: "PENDING" in site.gang.run(["squeue", "-h", "-j", job, "-o", "%T"]).out,
        "the job to be requeued",
    )
    assert site.drained() == {"n1": "Prolog error"}
    assert not ran.exists()
    event = site.events(job, 1)[0]
    assert (event["stage"], event["verdict"], event["drain"]) == (
        "prolog",
        "fail",
        True,
    )
    assert "by" not in event
    assert event["reason"].startswith("GPU 1 (0000:db:00.0): 2 uncorrectable ECC")
    # Where Slurm may be asked, its own poor reason gives way to the exact one.
    env = {"GANGSTART": str(site.scripts.program)}
    told = site.gang.run([CONF / "set-reason", "--events", site.path(job)], env)
    assert (told.code, told.err) == (0, "")
    assert site.drained() == {"n1": f"gangstart: {event['reason']}"}


@pytest.mark.parametrize("verdict", ["warn", "unknown"])
def test_what_is_no_failure_drains_nobody(install: Install, verdict: str) -> None:
    site = install()
    if verdict == "warn":
        site.gpus.set("n1", 0, persistence=0)
    else:
        site.gpus.kmsg.unlink()
    job = site.batch("-N1", "-wn1")
    before = site.events(job, 1)[0]
    assert (before["verdict"], before["drain"]) == (verdict, False)
    site.gang.quiet()
    assert site.drained() == {}


def test_a_process_that_left_the_job_is_told_of(install: Install, user: str) -> None:
    site = install()
    pid, job = daemon(site, user)
    after = site.events(job, 2)[1]
    (left,) = after["leftovers"]["processes"]
    assert (left["pid"], left["job"], left["program"]) == (pid, int(job), "sleep")
    assert left["proof"] == "environment"
    assert after["verdict"] == "warn"
    assert process.start_time(pid) is not None
    site.gang.quiet()
    assert site.drained() == {}
    site.gang.sweep()


def test_it_is_ended_where_the_site_wants_that(install: Install, user: str) -> None:
    site = install()
    site.scripts.install(CLEANUP="kill")
    pid, job = daemon(site, user)
    after = site.events(job, 2)[1]
    assert after["cleanup"]["outcomes"] == [
        {"what": f"pid {pid}", "how": "ended", "done": True}
    ]
    assert after["leftovers"]["processes"] == []
    assert "; cleaned up: " in after["reason"]
    assert process.start_time(pid) is None
    # It was recorded before it was done.
    assert '"event":"cleanup"' in site.path(job).read_text()
    site.gang.quiet()
    site.gang.clean(10)


def daemon(site: Site, user: str) -> tuple[int, str]:
    """A job of a user whose daemon gets away from it; the daemon's pid, and the job."""
    note = site.gang.folder / "pid"
    double_fork = f"(setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! >{note})"
    path = site.gang.folder / "job.sh"
    path.write_text(f"#!/bin/sh\n{double_fork}\n")
    site.gang.user = user
    words = ["sbatch", "--parsable", "-N1", "-wn1", "--output=/dev/null", str(path)]
    ran = site.gang.run(words)
    site.gang.user = ""
    assert ran.code == 0, ran.err
    until(lambda: note.exists() and note.read_text().strip() != "", "the daemon")
    return int(note.read_text()), ran.out.strip()


def test_what_the_job_did_to_the_gpus_is_in_the_epilogs_record_and_in_the_archive(
    install: Install,
) -> None:
    site = install()
    job, go_on = site.begun("-N1", "-wn1")
    site.gpus.set("n1", 1, remapped="0 2 1 0", **{"ecc_total.0.0": 7})
    go_on()
    before, after = site.events(job, 2)
    assert before["differences"] is None
    assert after["differences"]["compared"]
    found = {d["reading"]: d for d in after["differences"]["found"]}
    assert found
    for one in found.values():
        assert one["pci"] == "0000:db:00.0"
        assert one["after"] > one["before"]
    kept = site.archived(job)
    until(
        lambda: kept.exists() and kept.read_text() == site.path(job).read_text(),
        "both records to be archived",
    )


def test_an_xid_of_the_job_is_found_where_the_site_keeps_the_kernel_log(
    install: Install,
) -> None:
    site = install()
    job, go_on = site.begun("-N1", "-wn1")
    at_us = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    site.gpus.kmsg.write_text(f"3,1,{at_us},-;{FALLEN_OFF}\n")
    go_on()
    site.until_drained("n1")
    after = site.events(job, 2)[1]
    assert (after["verdict"], after["drain"]) == ("fail", True)
    assert "xid" in {d["kind"] for d in after["differences"]["found"]}
    assert site.drained() == {"n1": "Epilog error"}


def test_what_only_a_reset_mends_drains_after_the_job_and_not_before(
    install: Install,
) -> None:
    site = install()
    site.gpus.set("n1", 1, remapped="0 0 1 0")
    job = site.batch("-N1", "-wn1")
    site.until_drained("n1")
    before, after = site.events(job, 2)
    assert [(e["verdict"], e["drain"]) for e in (before, after)] == [
        ("warn", False),
        ("warn", True),
    ]
    assert site.drained() == {"n1": "Epilog error"}


def test_the_look_of_the_hook_is_not_repeated(install: Install) -> None:
    site = install(hooks="drain")
    job = site.batch("-N1", "-wn1")
    found = site.events(job, 4)
    assert [(e["stage"], e.get("by"), e["gpu"]["reused"]) for e in found] == [
        ("prolog", "hook", False),
        ("prolog", None, True),
        ("epilog", "hook", False),
        ("epilog", None, True),
    ]
    assert site.gpus.probed("n1") == 2
    assert {e["verdict"] for e in found} == {"ok"}
    site.gang.quiet()
    assert site.drained() == {}


def test_a_bad_gpu_that_the_hook_recorded_is_drained_by_the_script(
    install: Install,
) -> None:
    site = install(hooks="record")
    site.gpus.set("n1", 1, **BAD)
    job = site.batch("-N1", "-wn1", "--requeue")
    site.until_drained("n1")
    by_hook, by_script = site.events(job, 2)[:2]
    assert (by_hook["by"], by_script["gpu"]["reused"]) == ("hook", True)
    assert by_script["drain"]
    assert "GPU 1 (0000:db:00.0): 2 uncorrectable ECC" in by_script["reason"]


def test_the_health_check_tells_slurmd_and_leaves_the_nodes_state(
    install: Install, scripts: Scripts
) -> None:
    scripts.gpus.set("n2", 0, **BAD)
    program = f"HealthCheckProgram={scripts.folder}/healthcheck"
    site = install(program, "HealthCheckInterval=1")
    until(lambda: "GANGSTART CRITICAL" in site.log("n2"), "n2 to be told of")
    (line, *_) = re.findall(r"health_check failed: .*", site.log("n2"))
    assert "rc:2" in line
    until(lambda: site.gpus.probed("n1") > 0, "n1 to be looked at")
    assert "CRITICAL" not in site.log("n1")
    assert site.drained() == {}
    job = site.batch("-N1", "-wn1")
    site.events(job, 2)
    site.gang.quiet()


def test_the_number_of_gpus_that_slurm_expects_counts_beside_jobs(
    install: Install,
) -> None:
    site = install("GresTypes=gpu")
    words = ["scontrol", "update", "NodeName=n1", "Gres=gpu:h100:4"]
    assert site.gang.run(words).code == 0
    site.gpus.conf.write_text(f"kernel_log = {site.gpus.kmsg}\n")
    program = str(site.scripts.program)
    nagios = [program, "check", "--format", "nagios"]
    told = site.gang.cluster.run(nagios, node="n1")
    assert told.returncode == 2, told.stderr
    assert "2 GPUs, but 4 are expected" in told.stdout
    job = site.batch("-N1", "-wn1")
    assert [e["verdict"] for e in site.events(job, 2)] == ["ok", "ok"]


def test_a_prolog_inside_of_the_extern_steps_reach_is_as_good(
    install: Install,
) -> None:
    # Contain makes the extern step before the prolog; the prolog stays outside of it.
    site = install("PrologFlags=Contain", "JobAcctGatherType=jobacct_gather/none")
    job = site.batch("-N1", "-wn1")
    before, after = site.events(job, 2)
    for event in (before, after):
        assert event["verdict"] == "ok"
        assert not [f for f in event["findings"] if f["check"] == "run_in_job"]
    assert ".extern]" in site.log()
    site.gang.quiet()


def test_a_prolog_that_runs_in_the_job_is_a_check_all_the_same(
    scripts: Scripts, gang_on: Callable[[Spec], Gang]
) -> None:
    spec = scripts.spec()
    lines = (*spec.slurm_lines, "PrologFlags=RunInJob")
    try:
        gang = gang_on(replace(spec, slurm_lines=lines))
    except GangstartError as error:
        if "PrologFlags invalid: RunInJob" not in error.message:
            raise
        pytest.skip("this Slurm has no PrologFlags=RunInJob (24.05 and later have)")
    site = Site(gang, scripts)
    job = site.batch("-N1", "-wn1")
    for event in site.events(job, 2):
        assert event["verdict"] == "ok", event["findings"]
    site.gang.quiet()
