"""One look at the GPUs, from the probe to the record: health.h."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from core.c import lib
from gangstart.core import text
from gangstart.errors import GangstartError
from gangstart.gpulook import Place, measure, read
from gangstart.record import replace
from nvml.fakenvml import link
from nvml.test_probe import lines
from nvml.wellnode import make_well

if TYPE_CHECKING:
    from gangstart.gpuanswer import Health
    from nvml.fakenvml import Node

DRIVER_LOADED = "6,2,2000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06"
XID = "NVRM: Xid (PCI:0000:1a:00): 79, pid=4711, GPU has fallen off the bus."
FALLEN_OFF = f"3,9,9000000,-;{XID}"


@pytest.fixture
def well(fake_objects: list[Path], tmp_path: Path) -> Node:
    return make_well(tmp_path, link(fake_objects, tmp_path / "libnvidia-ml.so.1"))


def place(node: Node, program: Path, **more: str) -> Place:
    found = {
        "probe": str(program),
        "library": str(node.library),
        "root": str(node.root),
        "lock": str(node.folder / "lock"),
        "kernel_log": str(node.root / "kmsg"),
    }
    return Place(**(found | more))


def look(
    node: Node,
    program: Path,
    stage: str = "start",
    **more: Any,  # noqa: ANN401  measure()'s
) -> Health:
    return measure(stage, place=place(node, program), **more)


def test_a_sound_node_is_ok_and_its_record_has_every_sample(
    well: Node, program: Path
) -> None:
    found = look(well, program)
    assert (found.verdict, found.drain, found.none) == ("ok", False, False)
    assert found.sentence == "2 GPUs ok"
    gpus = found.event["gpus"]
    assert [gpu["pci"] for gpu in gpus] == ["0000:1a:00.0", "0000:db:00.0"]
    assert [gpu["verdict"] for gpu in gpus] == ["ok", "ok"]
    assert gpus[0]["readings"]["power_limit"] == 700_000
    assert found.event["node"]["driver"] == "570.124.06"
    assert found.event["looks"] == 1


def test_a_bad_gpu_is_named_with_value_limit_and_source(
    well: Node, program: Path
) -> None:
    well.gpus[1]["ecc_total.1.0"] = 3
    well.write()
    found = look(well, program)
    assert found.verdict == "fail"
    assert found.sentence.startswith("1 ok, 1 fail: GPU 1 (0000:db:00.0): ")
    hit = next(f for f in found.event["findings"] if f["check"] == "ecc_unc")
    assert (hit["gpu"], hit["uuid"]) == (1, "GPU-0000db-aaaa")
    assert (hit["value"], hit["limit"]) == ("3", "0")
    assert hit["source"]
    assert hit["action"]


def test_only_the_jobs_gpus_count_for_the_job(well: Node, program: Path) -> None:
    well.gpus[1]["ecc_total.1.0"] = 3
    well.write()
    assert look(well, program, devices=["0"]).sentence == "1 GPU ok"
    assert look(well, program, devices=["GPU-00001a-aaaa"]).verdict == "ok"
    assert look(well, program, devices=["1"]).verdict == "fail"
    missing = look(well, program, devices=["0", "7"])
    assert missing.verdict == "fail"
    assert "7" in missing.sentence


def test_a_bad_gpu_is_looked_at_again_before_the_node_is_drained(
    well: Node, program: Path
) -> None:
    well.gpus[0]["remapped"] = "0 0 0 1"
    well.write()
    once = look(well, program, "start")
    assert (once.verdict, once.drain, once.event["looks"]) == ("fail", False, 1)
    twice = look(well, program, "prolog")
    assert (twice.verdict, twice.drain, twice.event["looks"]) == ("fail", True, 2)


def test_without_gpus_nothing_is_started(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    found = measure(place=Place(probe="/nonexistent/probe", root=str(tmp_path)))
    assert (found.verdict, found.none, found.sentence) == ("ok", True, "no GPU")


def test_gpus_that_slurm_expects_are_missed(tmp_path: Path, program: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    here = Place(probe=str(program), root=str(tmp_path), lock=str(tmp_path / "lock"))
    found = measure(place=here, expected=8)
    assert found.verdict == "fail"
    assert found.sentence.startswith("no GPU was read; node fail: GPUs are expected")


def test_a_probe_that_is_missing_leaves_the_gpus_unknown(well: Node) -> None:
    lost = well.folder / "no-probe"
    found = measure("start", place=place(well, lost))
    assert (found.verdict, found.drain) == ("unknown", False)
    assert str(lost) in found.sentence
    assert "probe=PATH" in found.sentence


def test_a_driver_that_hangs_is_named_within_the_deadline(
    well: Node, program: Path
) -> None:
    well.gpus[1]["hang"] = "nvmlDeviceGetPowerUsage"
    well.write()
    conf = well.folder / "gangstart.conf"
    conf.write_text("gpu_deadline = 1\n")
    found = measure("start", place=place(well, program, conf=str(conf)))
    assert found.verdict == "fail"
    assert "nvmlDeviceGetPowerUsage" in found.sentence
    assert "0000:db:00.0" in found.sentence
    assert (found.event["hung_call"], found.event["hung_gpu"]) == (
        "nvmlDeviceGetPowerUsage",
        "0000:db:00.0",
    )


def test_the_kernel_log_counts_from_the_last_load_of_the_driver(
    well: Node, program: Path
) -> None:
    well.put("/kmsg", f"{DRIVER_LOADED}\n{FALLEN_OFF}")
    found = look(well, program)
    assert found.verdict == "fail"
    assert "Xid 79" in found.sentence
    well.put("/kmsg", f"{FALLEN_OFF}\n{DRIVER_LOADED}")
    assert look(well, program).verdict == "ok"


def test_a_long_kernel_log_is_read_from_its_end(well: Node, program: Path) -> None:
    noise = ("6,1,1,-;" + "x" * 90 + "\n") * 100_000
    well.put("/kmsg", noise + FALLEN_OFF)
    assert "Xid 79" in look(well, program).sentence
    well.put("/kmsg", FALLEN_OFF + "\n" + noise)
    assert look(well, program).verdict == "ok"


def test_a_kernel_log_that_cannot_be_read_is_unknown(well: Node, program: Path) -> None:
    here = place(well, program, kernel_log=str(well.folder / "none"))
    found = measure("start", place=here)
    assert "none cannot be read" in found.event["kernel_log_note"]
    assert found.verdict == "unknown"


def test_a_policy_with_a_mistake_is_refused(well: Node, program: Path) -> None:
    conf = well.folder / "gangstart.conf"
    conf.write_text("probe_deadline = soon\n")
    with pytest.raises(GangstartError, match="line 1: probe_deadline = soon"):
        measure(place=place(well, program, conf=str(conf)))


def test_a_record_gives_its_sample_back(well: Node, program: Path) -> None:
    found = look(well, program)
    gpus = read(json.dumps(found.event))
    assert gpus.count == 2
    assert text(gpus.gpus[1].uuid) == "GPU-0000db-aaaa"
    power = gpus.gpus[0].values[lib.GS_GPU_POWER_LIMIT]
    assert (power.code, power.value) == (0, 700_000)
    assert text(gpus.driver) == "570.124.06"


@pytest.mark.parametrize(
    "record",
    ["", "{}", "[]", '{"gpus":[{}]}', '{"node":{}', '{"gpus":7,"node":{}}'],
)
def test_what_is_no_record_is_refused(record: str) -> None:
    with pytest.raises(GangstartError, match="no record of GPUs"):
        read(record)


def test_a_record_with_too_many_gpus_is_refused() -> None:
    gpus = ",".join("{}" for _ in range(lib.GS_GPU_MAX + 1))
    with pytest.raises(GangstartError, match="no record of GPUs"):
        read(f'{{"gpus":[{gpus}],"node":{{}}}}')


SCHEMA = json.loads((Path(__file__).parents[2] / "docs/health.schema.json").read_text())


@pytest.mark.parametrize("spoil", ["", "hang", "handle", "ecc_total.1.0"])
def test_records_are_as_their_schema_says(
    well: Node, program: Path, spoil: str
) -> None:
    value = {"hang": "nvmlDeviceGetPowerUsage", "handle": 15}.get(spoil, 3)
    if spoil:
        well.gpus[0][spoil] = value
    well.write()
    conf = well.folder / "gangstart.conf"
    conf.write_text("gpu_deadline = 1\n")
    found = measure("start", place=place(well, program, conf=str(conf)))
    jsonschema.validate(found.event, SCHEMA)
    nothing = measure(place=Place(root=str(well.folder / "none")))
    jsonschema.validate(nothing.event, SCHEMA)


def test_stages_have_names() -> None:
    names = [text(lib.gs_stage_name(s)) for s in range(lib.GS_STAGES)]
    assert names == ["node", "start", "prolog", "epilog"]
    assert text(lib.gs_stage_name(lib.GS_STAGES)) == ""


def test_a_journal_that_is_not_kept_is_unknown(well: Node, program: Path) -> None:
    conf = well.folder / "gangstart.conf"
    conf.write_text("kernel_log = journal\n")
    here = place(well, program, conf=str(conf))
    found = measure("start", place=replace(here, kernel_log=None))
    kept = subprocess.run(
        ["journalctl", "-q", "-k", "-b", "-n1"],
        capture_output=True,
        timeout=20,
        check=False,
    )
    if kept.returncode == 0 and kept.stdout:
        assert found.event["kernel_log_note"] == ""
    else:
        assert "journal cannot be read" in found.event["kernel_log_note"]
        assert found.verdict == "unknown"


def test_the_probe_alone_ends_with_a_verdict(well: Node, program: Path) -> None:
    well.gpus[1]["ecc_total.1.0"] = 3
    well.write()
    conf = well.folder / "gangstart.conf"
    conf.write_text("kernel_log = none\n")
    told = lines(program, well, f"--conf={conf}")
    assert list(told[-2]) == ["node"]
    assert (told[-1]["verdict"], told[-1]["drain"]) == ("fail", False)
    assert told[-1]["sentence"].startswith("1 ok, 1 fail: GPU 1 (0000:db:00.0): ")


def test_the_probe_alone_refuses_a_policy_with_a_mistake(
    well: Node, program: Path
) -> None:
    conf = well.folder / "gangstart.conf"
    conf.write_text("no_such_key = 1\n")
    told = lines(program, well, f"--conf={conf}", code=78)
    assert "line 1" in told[-1]["error"]


#: Its child lives on, so the parent of vfork() stays in D state.
SINK = """
import ctypes, fcntl, os, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(f"{os.getpid()}\\n")
file.flush()
print("held", flush=True)
libc = ctypes.CDLL(None)
if libc.vfork() == 0:
    libc.pause()
"""


def test_a_probe_that_hangs_for_somebody_else_is_a_driver_that_hangs(
    well: Node, program: Path
) -> None:
    command = [sys.executable, "-c", SINK, str(well.folder / "lock")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, start_new_session=True
    ) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"held\n"
            found = look(well, program)
        finally:
            os.killpg(holder.pid, signal.SIGKILL)
    assert found.verdict == "fail"
    assert f"another gangstart-probe (pid {holder.pid}, in D state)" in found.sentence


def twice(node: Node, program: Path, second: str) -> Path:
    """A probe that does something else when it is called again."""
    path = node.folder / "twice"
    mark = node.folder / "called"
    path.write_text(
        f"#!/bin/sh\nif [ -e {mark} ]; then {second}; fi\n: >{mark}\n"
        f'exec {program} "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("second", ["exit 1", "echo rubbish; exit 0", "sleep 60"])
def test_what_a_first_look_found_holds_when_the_second_fails(
    well: Node, program: Path, second: str
) -> None:
    well.gpus[1]["ecc_total.1.0"] = 3
    well.write()
    conf = well.folder / "gangstart.conf"
    conf.write_text("init_deadline = 1\n")
    here = place(well, twice(well, program, second), conf=str(conf))
    found = measure("prolog", place=here)
    assert found.verdict == "fail"
    assert "GPU 1 (0000:db:00.0)" in found.sentence
    assert len(found.event["gpus"]) == 2
    assert found.event["note"], "why there was no second look"


def test_a_second_look_that_finds_nothing_clears_the_first(
    well: Node, program: Path
) -> None:
    calm = well.state.read_text()
    well.gpus[1]["ecc_total.1.0"] = 3
    well.write()
    (well.folder / "calm").write_text(calm)
    calm_down = f"cp {well.folder}/calm {well.state}"
    found = measure("prolog", place=place(well, twice(well, program, calm_down)))
    assert (found.verdict, found.event["looks"]) == ("ok", 2)


def test_a_site_that_reads_no_log_misses_nothing(well: Node, program: Path) -> None:
    conf = well.folder / "gangstart.conf"
    conf.write_text("kernel_log = none\n")
    here = replace(place(well, program, conf=str(conf)), kernel_log=None)
    assert measure("start", place=here).verdict == "ok"


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/urandom", "/"])
def test_what_is_no_kernel_log_is_refused(well: Node, program: Path, path: str) -> None:
    found = measure("start", place=place(well, program, kernel_log=path))
    assert f"{path} cannot be read" in found.event["kernel_log_note"]


def test_nobody_else_can_hold_the_lock(well: Node, program: Path) -> None:
    lock = well.folder / "lock"
    lock.touch(mode=0o644)
    assert look(well, program).verdict == "ok"
    assert lock.stat().st_mode & 0o777 == 0o600


def test_another_vendors_gpus_are_unknown_and_never_missing(
    well: Node, program: Path
) -> None:
    shutil.rmtree(well.root / "sys/bus/pci/devices")
    well.device("0000:3a:00.0", vendor="0x8086", kind="0x038000")
    found = look(well, program, devices=["0"])
    assert (found.verdict, found.drain) == ("unknown", False)
    assert "PCI vendor 0x8086" in found.sentence
    shutil.rmtree(well.root / "sys/bus/pci/devices")
    well.device("0000:03:00.0", vendor="0x1a03", kind="0x030000")
    assert look(well, program).none, "a server's console is no GPU"
