"""gangstart history after real starts: one node late in each, one refused start."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from gangstart.cluster import Spec
from repo import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.fakegpus import Gpus
    from cluster.gang import Gang

pytestmark = pytest.mark.cluster

SCHEMA = json.loads((ROOT / "docs" / "history.schema.json").read_text())
COMMAND = (sys.executable, "-m", "gangstart", "history", "--since", "1d")
EVERYBODY = ("-N4", "--ntasks-per-node=1")
JOBS = 6
#: Far more than a busy machine delays one node and not the others.
LATE_S, HELD_S = 3, 4


def sabotage(rank: int, path: object) -> dict[str, str]:
    """Environment of a step, a rank of which is held up: see saboteur.c."""
    return {
        "SABOTEUR_HOOK": "task_init",
        "SABOTEUR_WHO": f",{rank},",
        "SABOTEUR_DOES": f"hold={path}",
    }


def late_job(gang: Gang, number: int) -> None:
    """Run a job whose rank on n3 comes late."""
    path = gang.folder / f"late{number}"
    running = gang.start(
        ["srun", *EVERYBODY, "--gang-start=60", "true"], env=sabotage(2, path)
    )
    gang.until_waiting(3)
    time.sleep(HELD_S)  # this is the lateness itself
    path.touch()
    assert running.wait().code == 0


@pytest.fixture
def alone(gang_on: Callable[[Spec], Gang], saboteur: str) -> Iterator[Gang]:
    """Bring up a cluster whose archive has nothing of other tests."""
    gang = gang_on(Spec())
    with gang.plugstack(saboteur, "{ours}"):
        yield gang


def test_a_late_node_is_found_and_one_refusal_accuses_nobody(alone: Gang) -> None:
    gang = alone
    for number in range(JOBS):
        late_job(gang, number)
    refused = gang.srun(
        *(*EVERYBODY, "--gang-start=3", "true"), env=sabotage(1, gang.folder / "never")
    )
    assert refused.code == 75, refused.err
    gang.quiet()
    archive = gang.cluster.directory / "archive"
    for copy in gang.copies():
        gang.archived(copy["step"]["name"])
    ran = gang.run([*COMMAND, "--late", str(LATE_S), "--json"])
    told: dict[str, Any] = json.loads(ran.out)
    jsonschema.validate(told, SCHEMA)
    reading = told["reading"]
    assert (reading["starts"], reading["copies"], reading["refused"]) == (
        JOBS + 1,
    ) * 2 + (1,)
    nodes = {node["name"]: node for node in told["nodes"]}
    assert ran.code == 1
    assert told["nodes"][0]["name"] == "n3"
    late = nodes["n3"]["late"]
    assert (late["hits"], late["standing"]) == (JOBS, "worse")
    assert late["adjusted"] <= 0.01
    assert late["late_median_s"] >= LATE_S
    assert nodes["n2"]["refused"]["reasons"] == {"timeout": 1}
    assert nodes["n2"]["refused"]["standing"] == "ordinary"
    assert [name for name, node in nodes.items() if node["verdict"] == "fail"] == ["n3"]
    text = gang.run([*COMMAND, "--late", str(LATE_S)]).out
    assert text.startswith("1 of 4 nodes stands out: n3\n")
    assert f"n3: late in {JOBS} of {late['jobs']} jobs, by " in text
    assert f"in the archive {archive}" in text
    step = late["worst_step"]
    assert f"  next: gangstart report {step} --all · scontrol show node n3" in text
    shown = gang.run([*COMMAND[:3], "report", step, "--all"])
    assert (shown.code, "n3" in shown.out) == (0, True)


def test_a_gpu_that_failed_a_check_at_a_real_start_is_told(
    gang: Gang, gpus: Gpus
) -> None:
    gpus.set("n2", 1, **{"ecc_total.1.0": 2})
    assert gang.srun(*EVERYBODY, "--gang-start=60", "true").code == 0
    job = int(gang.copies()[-1]["step"]["job_id"])
    gang.archived(f"{job}.0")
    ran = gang.run([*COMMAND, "--json"])
    told: dict[str, Any] = json.loads(ran.out)
    jsonschema.validate(told, SCHEMA)
    found = {
        node["name"]: [one for one in node["findings"] if one["last_job"] == job]
        for node in told["nodes"]
    }
    faults = [one for one in found["n2"] if one["verdict"] == "fail"]
    assert [one["check"] for one in faults] == ["ecc_unc"]
    assert "uncorrectable" in faults[0]["reason"]
    assert [one for one in found["n1"] if one["verdict"] == "fail"] == []
    assert ran.code == 1
    text = gang.run(list(COMMAND)).out
    assert "n2: fail: ecc_unc in " in text
    assert "  next: gangstart check --explain ecc_unc · scontrol show node n2" in text
    gang.clean(10)
