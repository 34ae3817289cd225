"""GPUs before the start, on a real cluster whose nodes have a fake NVML each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from cluster.gang import until

if TYPE_CHECKING:
    from cluster.fakegpus import Gpus
    from cluster.gang import Gang

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("gpus")]

EVERYBODY = ("-N4", "--ntasks-per-node=2")
PATIENCE = 5.0
EXIT_UNFIT = 69


def test_sound_gpus_are_counted_in_the_one_line(gang: Gang) -> None:
    ran = gang.srun(*EVERYBODY, "--gang-start=20", "hostname")
    assert ran.code == 0, ran.err
    assert " · 8 GPUs ok · master" in ran.told[0]
    assert ran.seconds < PATIENCE
    gang.clean(10)


def test_record_starts_all_the_same_and_says_what_is_wrong(
    gang: Gang, gpus: Gpus
) -> None:
    gpus.set("n3", 1, **{"ecc_total.1.0": 2})
    ran = gang.srun(*EVERYBODY, "--gang-start=20", "hostname")
    assert ran.code == 0, ran.err
    assert len(ran.rows) == 8
    assert " · 7 ok, 1 fail: n3 GPU 1 (0000:db:00.0): " in ran.told[0]
    gang.clean(10)


def test_require_refuses_before_any_task_runs(gang: Gang, gpus: Gpus) -> None:
    gpus.set("n3", 1, **{"ecc_total.1.0": 2})
    ran = gang.srun(*EVERYBODY, "--gang-start=20,health=require", *gang.trace())
    assert ran.code == EXIT_UNFIT, ran.err
    head, line = ran.told[0], ran.told[1]
    assert "1 of 4 nodes is not healthy (health=require)" in head
    assert line.split()[0] == "n3"
    for word in (
        "GPU 1",
        "0000:db:00.0",
        "GPU-0000db-aaaa",
        "check ecc_unc",
        "value 2",
        "limit 0",
        "source: ",
    ):
        assert word in line
    gang.clean(10)
    assert gang.started() == []


def test_require_lets_warnings_pass(gang: Gang, gpus: Gpus) -> None:
    gpus.set("n2", 0, persistence=0)
    ran = gang.srun(*EVERYBODY, "--gang-start=20,health=require", "hostname")
    assert ran.code == 0, ran.err
    assert "1 warn: n2 GPU 0" in ran.told[0]
    gang.clean(10)


def test_what_is_not_known_refuses_only_where_it_is_strict(
    gang: Gang, gpus: Gpus
) -> None:

    gpus.conf.write_text(f"expected_gpus = 2\nkernel_log = {gpus.folder}/nothing\n")
    ran = gang.srun(*EVERYBODY, "--gang-start=20,health=require", "hostname")
    assert ran.code == 0, ran.err
    assert "unknown: n1 " in ran.told[0]
    ran = gang.srun(
        *EVERYBODY, "--gang-start=20,health=require,require=strict", *gang.trace()
    )
    assert ran.code == EXIT_UNFIT, ran.err
    assert "4 of 4 nodes are not healthy" in ran.told[0]
    gang.clean(10)
    assert gang.started() == []


def test_a_driver_that_hangs_delays_nobody_beyond_its_deadline(
    gang: Gang, gpus: Gpus
) -> None:
    gpus.write_conf("gpu_deadline = 2")
    gpus.set("n4", 0, hang="nvmlDeviceGetPowerUsage")
    ran = gang.srun(*EVERYBODY, "--gang-start=20", "hostname")
    assert ran.code == 0, ran.err
    assert "n4 " in ran.told[0]
    assert "nvmlDeviceGetPowerUsage" in ran.told[0]
    assert 2 < ran.seconds < 2 + PATIENCE
    gang.clean(10)
    until(lambda: gang.pids("gangstart-probe") == {}, "the probe to be gone", 10)


def test_an_xid_of_the_kernel_log_is_found(gang: Gang, gpus: Gpus) -> None:
    gpus.kmsg.write_text(
        "3,1,99,-;NVRM: Xid (PCI:0000:1a:00): 79, pid=7, GPU has fallen off the bus.\n"
    )
    ran = gang.srun("-N1", "--gang-start=20,health=require", *gang.trace())
    assert ran.code == EXIT_UNFIT, ran.err
    assert "Xid 79" in ran.told[1]
    gang.clean(10)


def test_a_policy_that_is_wrong_is_told_and_hides_nothing(
    gang: Gang, gpus: Gpus
) -> None:
    gpus.conf.write_text("expected_gpu = 2\n")
    ran = gang.srun("-N2", "--gang-start=20", "hostname")
    assert ran.code == 0, ran.err
    assert "unknown: n1 " in ran.told[0]
    assert "line 1: " in ran.told[0]
    gang.clean(10)


def test_two_tasks_on_one_gpu_are_named(gang: Gang) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "0"}
    ran = gang.srun("-N1", "-n2", "--gang-start=20", "hostname", env=env)
    assert ran.code == 0, ran.err
    assert "would both use GPU GPU-00001a-aaaa" in ran.err
    ran = gang.srun(
        "-N1", "-n2", "--gang-start=20,health=require", *gang.trace(), env=env
    )
    assert ran.code == EXIT_UNFIT, ran.err
    assert "would both use GPU GPU-00001a-aaaa" in ran.told[1]
    gang.clean(10)
    assert gang.started() == []


def test_the_report_has_every_sample(gang: Gang, gpus: Gpus) -> None:
    gpus.set("n2", 1, persistence=0)
    wanted = gang.folder / "report.json"
    spec = f"--gang-start=20,report={wanted}"
    ran = gang.srun(*EVERYBODY, spec, "hostname")
    assert ran.code == 0, ran.err
    report = json.loads(wanted.read_text())
    assert report["health"]["mode"] == "record"
    assert report["health"]["gpus"] == {"ok": 7, "unknown": 0, "warn": 1, "fail": 0}
    assert report["health"]["waited_s"] >= 0
    for node in report["nodes"]:
        record = node["health"]["record"]
        assert [gpu["index"] for gpu in record["gpus"]] == [0, 1]
        assert record["gpus"][0]["readings"]["temperature"] == 41
        assert node["health"]["took_s"] > 0
    gang.clean(10)


def test_off_looks_at_nothing(gang: Gang, gpus: Gpus) -> None:
    gpus.set("n3", 1, **{"ecc_total.1.0": 2})
    ran = gang.srun("-N4", "--gang-start=20,health=off", "hostname")
    assert ran.code == 0, ran.err
    assert "GPU" not in ran.err
    gang.clean(10)


def test_a_step_that_was_given_no_gpus_is_not_judged_by_them(
    gang: Gang, gpus: Gpus
) -> None:
    gpus.set("n1", 1, **{"ecc_total.1.0": 2})
    env = {"SLURM_JOB_GPUS": "1"}
    ran = gang.srun("-N1", "--gang-start=20,health=require", "hostname", env=env)
    assert ran.code == 0, ran.err
    assert "GPU" not in ran.told[0]
    gang.clean(10)


def test_a_short_wait_does_not_let_a_bad_gpu_pass(gang: Gang, gpus: Gpus) -> None:
    gpus.set("n1", 1, **{"ecc_total.1.0": 2})
    ran = gang.srun("-N1", "-wn1", "--gang-start=2,health=require", *gang.trace())
    assert ran.code == EXIT_UNFIT, ran.err
    gang.clean(10)
    assert gang.started() == []
