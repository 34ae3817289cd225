"""gangstart triage JOB on a real cluster: starts refused, jobs of others, lost nodes.

Slurm here has no accounting: what slurmctld still knows, the job's own output and the
start report must do. With accounting: tests/triage/test_byjob_live.py.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
import slurmroot
from cluster.fakegpus import Gpus, equipped
from cluster.gang import Gang, until
from cluster.test_library import PATHS, python_of
from gangstart.cluster import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

USER = "games"
LINES = ("MinJobAge=3600", "KillWait=2", "OverTimeLimit=0", "SlurmdTimeout=6")
SPEC = Spec(slurm_lines=LINES)


@pytest.fixture(scope="module")
def shared(module_gang: Callable[[Spec], Gang]) -> Gang:
    return module_gang(SPEC)


@pytest.fixture
def site(shared: Gang, afresh: Callable[[Gang], Gang]) -> Gang:
    return afresh(shared)


@pytest.fixture
def sick(site: Gang, fake_library: Path) -> Iterator[Gpus]:
    """Nodes with two sound GPUs each, for a test to make one sick."""
    with equipped(site, fake_library, "hooks=record") as made:
        yield made


class Person(Gang):
    """An ordinary user, with a Python that such a one may run."""

    python = ""


@pytest.fixture
def own(site: Gang) -> Iterator[Person]:
    """The same cluster for an ordinary user, whose jobs end with the test."""
    if os.getuid() != 0:
        pytest.skip("needs root to be two users")
    made = Person(site.cluster, site.folder, site.watch, USER)
    made.python = python_of(USER)
    if not made.python:
        pytest.skip("no Python that an ordinary user may run loads the C core")
    yield made
    site.run(["scancel", "-u", USER])


def submitted(site: Gang, script: str, *options: str) -> str:
    """Submit a batch script; its number."""
    path = site.folder / "job.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    out = f"--output={site.folder}/slurm-%j.out"
    ran = site.run(["sbatch", "--parsable", out, *options, path])
    assert ran.code == 0, ran.err
    return ran.out.strip()


def state(site: Gang, job: str) -> str:
    told = site.run(["squeue", "-h", "-t", "all", "-o", "%T", "-j", job])
    return told.out.strip()


def ended(site: Gang, job: str, wanted: str, seconds: float = 60) -> None:
    until(lambda: state(site, job) == wanted, f"job {job} to be {wanted}", seconds)


def why(site: Gang, job: str, *options: str) -> dict[str, Any]:
    """The answer of the command, as it is typed on the head."""
    python = getattr(site, "python", sys.executable)
    command = [python, "-m", "gangstart", "triage", job, "--json", *options]
    ran = site.run(command, env=PATHS)
    assert ran.code == 0, ran.err
    told: dict[str, Any] = json.loads(ran.out)
    return told


def source(told: dict[str, Any], name: str) -> tuple[str, str]:
    """Outcome and detail of a source, of the first of that name."""
    found = next(one for one in told["sources"] if one["name"] == name)
    return found["outcome"], found["detail"]


def cited(told: dict[str, Any]) -> str:
    return "\n".join(one["text"] for one in told["evidence"])


def test_a_start_without_a_program_on_one_node_is_the_nodes_lack(site: Gang) -> None:
    here = "/tmp/gs-triage-program"  # noqa: S108  each node has its own /tmp
    for node in ("n1", "n2", "n3"):
        done = site.cluster.run(["cp", "/bin/true", here], node=node)
        assert done.returncode == 0, done.stderr
    job = submitted(site, f"srun -N4 -n4 --gang-start=20 {here}", "-N4", "-n4")
    ended(site, job, "FAILED")

    told = why(site, job)

    assert (told["root_cause"], told["node"]) == ("NODE_SOFTWARE", "n4"), told
    assert source(told, "archive")[0] == "used"


def test_a_rank_that_another_plugin_holds_is_named_with_the_reason(
    site: Gang, saboteur: str
) -> None:
    held = "hold=/nonexistent/never"
    script = (
        f"export SABOTEUR_HOOK=task_init SABOTEUR_WHO=,2, SABOTEUR_DOES={held}\n"
        "srun -N4 -n4 --gang-start=3 hostname"
    )
    with site.plugstack(saboteur, "{ours}"):
        job = submitted(site, script, "-N4", "-n4")
        ended(site, job, "FAILED")

    told = why(site, job)

    assert (told["root_cause"], told["rank"]) == ("BARRIER_TIMEOUT", 2), told
    assert told["node"] == "n3"
    assert "saboteur" in told["sentence"]
    assert told["confidence"] == "likely"


def test_a_traceback_of_one_rank_is_the_cause_of_the_end_of_all(site: Gang) -> None:
    script = site.folder / "early.py"
    script.write_text("import os\nraise RuntimeError('no licence for this site')\n")
    wrap = f"[ $SLURM_PROCID != 2 ] || exec /usr/bin/python3 {script}; sleep 60"
    job = submitted(
        site,
        f"srun -N4 -n4 -K --label sh -c '{wrap}'",
        *("-N4", "-n4"),
    )
    ended(site, job, "FAILED")

    told = why(site, job)

    assert (told["root_cause"], told["rank"]) == ("APP_EXCEPTION", 2), told
    assert "no licence for this site" in told["sentence"]


def test_a_start_refused_for_a_sick_gpu_names_the_gpu(site: Gang, sick: Gpus) -> None:
    sick.set("n3", 1, **{"ecc_total.1.0": 2})
    job = submitted(
        site, "srun -N4 -n8 --gang-start=20,health=require hostname", "-N4", "-n8"
    )
    ended(site, job, "FAILED")

    told = why(site, job)

    assert (told["root_cause"], told["node"]) == ("GPU_ECC", "n3"), told
    assert "0000:db:00.0" in told["sentence"]
    assert told["drain"] is True
    assert "BARRIER_TIMEOUT" in {one["code"] for one in told["secondary"]}


def test_a_gpu_that_counted_errors_during_the_job_is_found_after_it(
    site: Gang, sick: Gpus
) -> None:
    line = "1: torch.AcceleratorError: CUDA error: unknown error"
    # A node that is not the first has its Prolog when the first step comes there.
    script = (
        f"srun -N2 -n2 true; touch {site.folder}/there\n"
        f"while [ ! -e {site.folder}/go ]; do sleep 0.1; done; echo '{line}'\n"
        "srun -N2 -n2 sh -c 'exit 1'"
    )
    job = submitted(site, script, "-N2", "-n2", "-wn1,n2")
    until((site.folder / "there").exists, "the first step to end")
    sick.set("n2", 0, **{"ecc_total.1.0": 3})
    (site.folder / "go").touch()
    ended(site, job, "FAILED")
    kept = site.cluster.directory / "archive" / f"{job}.node/n2/sys/events.jsonl"
    until(kept.exists, "the epilog's record to be archived", 20)

    told = why(site, job)

    assert (told["root_cause"], told["node"]) == ("GPU_ECC", "n2"), told
    assert "uncorrectable ECC errors during the job" in told["sentence"]
    assert str(kept) in {one["place"]["source"] for one in told["evidence"]}


def test_a_node_whose_slurmd_hangs_is_named_with_the_reason(site: Gang) -> None:
    job = submitted(
        site,
        f"while [ ! -e {site.folder}/go ]; do sleep 0.1; done\n"
        "srun -N4 -n4 --gang-start=2 hostname",
        *("-N4", "-n4", "--no-requeue"),
    )
    until(lambda: state(site, job) == "RUNNING", "the job to run")
    site.cluster.signal_slurmd("n3", "stop")
    try:
        (site.folder / "go").touch()
        ended(site, job, "FAILED")
    finally:
        site.cluster.signal_slurmd("n3", "cont")

    told = why(site, job)

    assert told["node"] == "n3", told
    assert told["root_cause"] in {"BARRIER_TIMEOUT", "LAUNCH_FAILED"}
    assert "slurmd takes connections but does not answer" in told["sentence"]


def test_a_user_sees_only_the_logs_of_own_jobs(site: Gang, own: Person) -> None:
    secret = "KeyError: 'the password is swordfish'"  # noqa: S105
    site.folder.chmod(0o755)
    job = submitted(site, f'echo "{secret}"; exit 3', "-N1")
    ended(site, job, "FAILED")

    told = why(own, job)

    outcome, detail = source(told, "job files")
    assert outcome == "unreachable"
    assert "root" in detail
    assert "swordfish" not in json.dumps(told)
    assert why(site, job)["root_cause"] != told["root_cause"]


def test_a_program_that_is_killed_without_a_word(site: Gang) -> None:
    job = submitted(site, "sh -c 'kill -9 $$'; exit 137", "-N1")
    ended(site, job, "FAILED")

    told = why(site, job)

    assert told["root_cause"] == "UNKNOWN", told
    assert any("who sent SIGKILL" in one for one in told["missing"])
    assert any("--kmsg" in one for one in told["missing"])
    assert "137" in cited(told)


def test_a_job_that_somebody_else_cancelled(site: Gang, own: Person) -> None:
    job = submitted(own, "echo step 1; exec sleep 300", "-N1")
    until(lambda: state(site, job) == "RUNNING", "the job to run")
    assert why(own, job)["root_cause"] == "NO_FAILURE"
    site.run(["scancel", job])
    ended(site, job, "CANCELLED")

    told = why(own, job)

    assert told["root_cause"] == "USER_CANCEL", told
    assert source(told, "job files")[0] == "used"


def test_a_node_that_is_lost(site: Gang) -> None:
    job = submitted(
        site,
        "srun -N2 -n2 sh -c 'echo step 1; exec sleep 300'",
        *("-N2", "-n2", "-wn1,n4", "--no-requeue"),
    )
    until(lambda: len(site.pids("sleep")) == 2, "both tasks to run")
    site.cluster.signal_slurmd("n4", "kill")
    try:
        ended(site, job, "NODE_FAIL", 120)

        told = why(site, job)
    finally:
        site.cluster.start_slurmd("n4")
        site.run(["scontrol", "update", "nodename=n4", "state=resume"])

    assert (told["root_cause"], told["node"]) == ("NODE_FAIL", "n4"), told


def test_a_time_limit(site: Gang) -> None:
    if slurmroot.own():
        pytest.skip("tests/triage/test_byjob_live.py waits for one already")
    job = submitted(site, "echo step 1; exec sleep 300", "-N1", "--time=1")
    # Slurm looks at limits only now and then.
    ended(site, job, "TIMEOUT", 200)

    told = why(site, job)

    assert told["root_cause"] == "TIME_LIMIT", told
