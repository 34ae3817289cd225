"""The job's own records on a node: spool.h's JOB.node and jobcheck.h's event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from core.c import ffi, lib, new, taken, text

if TYPE_CHECKING:
    from pathlib import Path

KEEP = 2
NODE = {"init_code": "NVML_SUCCESS", "count_code": "NVML_SUCCESS", "taken_us": 9}


def add(base: Path, job: int, line: str) -> str:
    """Add a line; the sentence of a failure."""
    error = new("gs_error")
    rc = lib.gs_spool_event(str(base).encode(), job, line.encode(), error)
    assert (rc == 0) == (text(error.text) == "")
    return text(error.text)


def event(stage: str) -> str:
    return json.dumps({"event": "check", "stage": stage}, separators=(",", ":"))


def lines(base: Path, job: int) -> list[str]:
    return (base / f"{job}.node/sys/events.jsonl").read_text().splitlines()


def test_lines_are_added_one_after_the_other(tmp_path: Path) -> None:
    base = tmp_path / "spool"
    assert add(base, 7, event("prolog")) == ""
    assert add(base, 7, event("epilog")) == ""
    assert lines(base, 7) == [event("prolog"), event("epilog")]
    assert (base / "7.node/sys").stat().st_mode & 0o777 == 0o755


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    folder = tmp_path / "spool/7.node/sys"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").symlink_to(victim)
    assert "cannot add to" in add(tmp_path / "spool", 7, event("prolog"))
    assert victim.read_text() == "mine\n"


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "spool/7.node"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert "writable for nobody else" in add(tmp_path / "spool", 7, event("prolog"))


def test_only_ended_jobs_are_pruned_and_the_latest_stay(tmp_path: Path) -> None:
    for job in range(1, 7):
        add(tmp_path, job, event("prolog"))
        lib.gs_spool_keep(str(tmp_path).encode(), job, b"health.json", b"{}", ffi.NULL)
        if job != 1:
            add(tmp_path, job, event("epilog"))
        path = tmp_path / f"{job}.node/sys/events.jsonl"
        os.utime(path, (job, job))
    (tmp_path / "not-a-job.node").mkdir()
    lib.gs_spool_prune(str(tmp_path).encode(), KEEP)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["1.node", "5.node", "6.node", "not-a-job.node"]


def test_the_first_sample_of_the_job_is_found(tmp_path: Path) -> None:
    def put(folder: str, content: str, when: int) -> None:
        path = tmp_path / folder / "sys/health.json"
        path.parent.mkdir(parents=True)
        path.write_text(content)
        os.utime(path, (when, when))

    def sample(job: int) -> str | None:
        made = lib.gs_spool_sample(str(tmp_path).encode(), job)
        return None if made == ffi.NULL else taken(made)

    assert sample(7) is None
    put("7.1", "second", 20)
    put("77.0", "of another job", 1)
    assert sample(7) == "second"
    put("7.node", "first", 10)
    assert sample(7) == "first"
    assert sample(78) is None


def test_a_sample_that_is_a_link_or_too_large_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "7.0/sys"
    folder.mkdir(parents=True)
    (folder / "health.json").symlink_to("/etc/passwd")
    assert lib.gs_spool_sample(str(tmp_path).encode(), 7) == ffi.NULL
    (folder / "health.json").unlink()
    with (folder / "health.json").open("wb") as file:
        file.truncate(lib.GS_SAMPLE_MAX + 1)
    assert lib.gs_spool_sample(str(tmp_path).encode(), 7) == ffi.NULL


def test_two_records_are_compared_and_what_is_none_is_said() -> None:
    def record(errors: int) -> bytes:
        gpu = {
            "index": 0,
            "code": "NVML_SUCCESS",
            "uuid": "GPU-1",
            "pci": "0000:1a:00.0",
        }
        readings = {"ecc_unc_volatile": errors}
        return json.dumps(
            {"gpus": [gpu | {"readings": readings}], "node": NODE}
        ).encode()

    diffs, error = new("gs_gpudiffs"), new("gs_error")
    rc = lib.gs_records_compare(record(0), record(2), b"/dev/null", diffs, error)
    assert rc == 0
    found = {text(diffs.diffs[i].id): diffs.diffs[i] for i in range(diffs.count)}
    assert (found["ecc_unc"].before, found["ecc_unc"].after) == (0, 2)
    lib.gs_gpudiffs_free(diffs)
    assert lib.gs_records_compare(b"{", record(2), ffi.NULL, diffs, error) < 0
    assert "no record of GPUs" in text(error.text)


@pytest.mark.parametrize("stage", ["prolog", "epilog"])
def test_the_event_of_a_node_without_gpus(tmp_path: Path, stage: str) -> None:
    keep = [ffi.new("char[]", value) for value in (b"n1", str(tmp_path).encode())]
    conf = new("gs_jobcheck_conf", spool=keep[1])
    check = new(
        "gs_jobcheck",
        stage=lib.GS_STAGE_PROLOG if stage == "prolog" else lib.GS_STAGE_EPILOG,
        job_id=7,
        user_id=1000,
        node=keep[0],
    )
    assert lib.gs_jobcheck_run(check, conf) == 0
    if not check.health.none:
        pytest.skip("this machine has a GPU")
    made = json.loads(taken(lib.gs_jobcheck_event(check)))
    assert (made["event"], made["stage"], made["job"]) == ("check", stage, 7)
    assert (made["verdict"], made["drain"], made["reason"]) == ("ok", False, "no GPU")
    if stage == "prolog":
        assert made["differences"] is None
    else:
        assert made["differences"]["note"] == "no earlier sample of this job"
    lib.gs_jobcheck_clear(check)


TWICE = """
import resource, signal, sys
from gangstart._core import ffi, lib
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
base, size = sys.argv[1].encode(), int(sys.argv[2])
assert lib.gs_spool_event(base, 7, b'{"n":1}', ffi.NULL) == 0
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
error = ffi.new("struct gs_error *")
assert lib.gs_spool_event(base, 7, b"x" * size, error) < 0
print(ffi.string(error.text).decode())
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
assert lib.gs_spool_event(base, 7, b'{"n":2}', ffi.NULL) == 0
"""


def test_a_line_that_does_not_fit_leaves_no_half_behind(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TWICE, str(tmp_path), "100"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "No space left on device" in ran.stdout
    assert lines(tmp_path, 7) == ['{"n":1}', '{"n":2}']
