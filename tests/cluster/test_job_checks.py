"""The hooks before and after a job on a real cluster: who is drained, what is kept."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from cluster.gang import until
from repo import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.fakegpus import Gpus
    from cluster.gang import Gang

pytestmark = pytest.mark.cluster

FALLEN_OFF = "NVRM: Xid (PCI:0000:1a:00): 79, pid=7, GPU has fallen off the bus."
SCHEMA = json.loads((ROOT / "docs" / "check.schema.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)
NODES = ("n1", "n2", "n3", "n4")


@pytest.fixture
def drained(gang: Gang, gpus: Gpus) -> Iterator[Gang]:
    """Bad nodes are drained; afterwards every node is as it was."""
    with gang.plugstack(f"{{ours}} {gpus.arguments} hooks=drain"):
        yield gang
        gang.run(["scancel", "-u", "root"])
        resume(gang)


def resume(gang: Gang) -> None:
    for node in NODES:
        if state(gang, node)[0] != "IDLE":
            gang.run(["scontrol", "update", f"nodename={node}", "state=resume"])


def state(gang: Gang, node: str) -> tuple[str, str]:
    """A node's state and the reason that Slurm shows."""
    told = gang.run(["scontrol", "show", "node", node]).out
    found = re.search(r"State=(\S+)", told)
    reason = re.search(r"Reason=(.*?) \[", told)
    assert found
    return found[1], reason[1] if reason else ""


def drained_nodes(gang: Gang) -> dict[str, str]:
    """Every node that is drained, with Slurm's reason."""
    found = {node: state(gang, node) for node in NODES}
    return {node: why for node, (name, why) in found.items() if "DRAIN" in name}


def events(gang: Gang, job: str, node: str = "n1") -> list[dict[str, Any]]:
    """What was recorded of a job on a node."""
    path: Path = (
        gang.cluster.directory / "node" / node / "run" / f"{job}.node/sys/events.jsonl"
    )
    until(path.exists, f"{path} to be written", 20)
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for event in found:
        VALID.validate(event)
        assert event["by"] == "hook"
    return found


def batch(gang: Gang, *options: str, script: str = "true") -> str:
    """Submit a job; its id."""
    path = gang.folder / "job.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    words = ["sbatch", "--parsable", f"--output={gang.folder}/out", *options, str(path)]
    ran = gang.run(words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def job_state(gang: Gang, job: str) -> str:
    told = gang.run(["squeue", "-h", "-j", job, "-o", "%T %r"])
    return told.out.strip()


def test_a_sound_node_is_looked_at_before_and_after_the_job(drained: Gang) -> None:
    job = batch(drained, "-N2")
    drained.quiet()
    before, after = events(drained, job)
    assert [e["stage"] for e in (before, after)] == ["prolog", "epilog"]
    for event in (before, after):
        assert (event["verdict"], event["drain"], event["job"]) == (
            "ok",
            False,
            int(job),
        )
        assert event["gpu"]["event"]["gpus"][1]["pci"] == "0000:db:00.0"
    assert before["differences"] is None
    assert after["differences"] == {"compared": True, "note": "", "found": []}
    assert drained_nodes(drained) == {}
    drained.clean(10)


def test_a_bad_gpu_before_the_job_drains_its_node_and_requeues_the_job(
    drained: Gang, gpus: Gpus
) -> None:
    gpus.set("n1", 1, **{"ecc_total.1.0": 2})
    job = batch(drained, "-N3", "--requeue", script="touch ran")
    until(lambda: "n1" in drained_nodes(drained), "n1 to be drained")
    assert drained_nodes(drained) == {"n1": "Prolog error"}
    until(
        lambda: job_state(drained, job).startswith("PENDING"), "the job to be requeued"
    )
    assert not (drained.folder / "ran").exists()
    event = events(drained, job)[0]
    assert (event["stage"], event["verdict"], event["drain"]) == (
        "prolog",
        "fail",
        True,
    )
    assert "GPU 1 (0000:db:00.0)" in event["reason"]
    log = drained.cluster.directory / "log" / "slurmd.n1.log"
    assert "this node is to be drained: 1 ok, 1 fail: GPU 1" in log.read_text()


def test_a_bad_gpu_on_a_node_that_a_step_comes_to_drains_that_node(
    drained: Gang, gpus: Gpus
) -> None:
    gpus.set("n3", 0, **{"ecc_total.1.0": 2})
    ran = drained.srun("-N4", *drained.trace())
    assert ran.code != 0
    until(lambda: "n3" in drained_nodes(drained), "n3 to be drained")
    assert drained_nodes(drained) == {"n3": "Prolog error"}


@pytest.mark.parametrize("verdict", ["warn", "unknown"])
def test_what_is_no_failure_drains_nobody(
    drained: Gang, gpus: Gpus, verdict: str
) -> None:
    if verdict == "warn":
        gpus.set("n1", 0, persistence=0)
    else:
        gpus.kmsg.unlink()
    job = batch(drained, "-N1", "-wn1")
    drained.quiet()
    before = events(drained, job)[0]
    assert before["drain"] is False
    assert before["verdict"] == verdict
    assert drained_nodes(drained) == {}


def test_with_record_a_bad_node_is_told_and_stays(gang: Gang, gpus: Gpus) -> None:
    gpus.set("n1", 1, **{"ecc_total.1.0": 2})
    with gang.plugstack(f"{{ours}} {gpus.arguments} hooks=record"):
        job = batch(gang, "-N1", "-wn1")
        gang.quiet()
    assert [e["verdict"] for e in events(gang, job)] == ["fail", "fail"]
    assert drained_nodes(gang) == {}
    gang.clean(10)


def test_what_the_job_did_to_the_gpus_is_an_event_of_it(
    drained: Gang, gpus: Gpus
) -> None:
    go_on = drained.folder / "go-on"
    script = f"touch {drained.folder}/begun; while [ ! -e {go_on} ]; do sleep 0.1; done"
    job = batch(drained, "-N1", "-wn1", script=script)
    until((drained.folder / "begun").exists, "the job to begin")
    gpus.set("n1", 1, remapped="0 2 1 0", **{"ecc_total.0.0": 7})
    go_on.touch()
    until(lambda: len(events(drained, job)) == 2, "the epilog's record")
    after = events(drained, job)[1]
    found = {d["reading"]: d for d in after["differences"]["found"]}
    assert after["differences"]["compared"]
    assert "remap_unc" in found or "remap_rows" in found, found
    for difference in found.values():
        assert difference["pci"] == "0000:db:00.0"
        assert difference["after"] > difference["before"]
    assert "during the job: " in after["reason"]


def test_a_step_with_the_flag_is_compared_though_no_hook_was_asked_for(
    gang: Gang, gpus: Gpus
) -> None:
    go_on = gang.folder / "go-on"
    script = f"touch begun; while [ ! -e {go_on} ]; do sleep 0.1; done"
    words = ["srun", "-N1", "-wn1", "--gang-start=20", "sh", "-c", script]
    running = gang.start(words)
    until((gang.folder / "begun").exists, "the step to begin")
    gpus.set("n1", 0, **{"ecc_total.1.0": 2})
    go_on.touch()
    ran = running.wait(30)
    assert ran.code == 0, ran.err
    gang.quiet()
    job = gang.copies()[-1]["step"]["job_id"]
    (after,) = events(gang, str(job))
    assert after["stage"] == "epilog"
    assert after["differences"]["compared"]
    assert {d["reading"] for d in after["differences"]["found"]} >= {"ecc_unc"}
    assert drained_nodes(gang) == {}
    gang.clean(10)


def test_a_driver_that_hangs_in_the_prolog_drains_only_its_node(
    drained: Gang, gpus: Gpus
) -> None:
    gpus.write_conf("gpu_deadline = 1")
    gpus.set("n3", 0, hang="nvmlDeviceGetPowerUsage")
    job = batch(drained, "-N2", "-wn[3-4]", "--requeue")
    until(lambda: "n3" in drained_nodes(drained), "n3 to be drained")
    assert set(drained_nodes(drained)) == {"n3"}
    assert "nvmlDeviceGetPowerUsage" in events(drained, job, "n3")[0]["reason"]
    until(lambda: drained.pids("gangstart-probe") == {}, "the probe to be gone", 10)


def test_an_xid_of_the_job_drains_at_its_end(drained: Gang, gpus: Gpus) -> None:
    go_on = drained.folder / "go-on"
    script = f"touch begun; while [ ! -e {go_on} ]; do sleep 0.1; done"
    batch(drained, "-N1", "-wn1", f"--chdir={drained.folder}", script=script)
    until((drained.folder / "begun").exists, "the job to begin")
    gpus.kmsg.write_text(f"3,1,99,-;{FALLEN_OFF}\n")
    go_on.touch()
    until(lambda: "n1" in drained_nodes(drained), "n1 to be drained")
    assert drained_nodes(drained) == {"n1": "Epilog error"}


def test_only_the_latest_jobs_records_stay(drained: Gang) -> None:
    jobs = [batch(drained, "-N1", "-wn4") for _ in range(3)]
    drained.quiet()
    run = drained.cluster.directory / "node/n4/run"
    assert {f"{job}.node" for job in jobs} <= {p.name for p in run.iterdir()}
    archive = drained.cluster.directory / "archive"
    for job in jobs:
        kept = archive / f"{job}.node/n4/sys/events.jsonl"
        assert len(kept.read_text().splitlines()) == 2
