"""gangstart check: exit codes, what is printed for whom, and what is recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import jsonschema
import pytest
from check.fakenode import GPU, OURS, FakeNode, FakeProcess, Known, health
from gangstart.check import catalogue, command, record
from gangstart.check.leftover import Job
from gangstart.errors import GangstartError
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = json.loads((ROOT / "docs" / "check.schema.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)
IN_HOOK = {"SLURM_JOB_ID": "501", "SLURM_JOB_UID": "1001", "SLURMD_NODENAME": "n7"}
EVENT: dict[str, Known] = {
    "driver": "570.1",
    "took_ms": 70,
    "gpus": [
        {
            "index": i,
            "uuid": f"GPU-{i}",
            "pci": f"0000:0{i}:00.0",
            "name": "NVIDIA H200",
            "verdict": "ok" if i else "fail",
            "readings": {"temperature": 41, "recovery_action": "none"},
        }
        for i in range(2)
    ],
    "findings": [
        {
            "check": "ecc_unc",
            "kind": "hit",
            "verdict": "fail",
            "gpu": 0,
            "uuid": "GPU-0",
            "pci": "0000:00:00.0",
            "value": "3 errors",
            "limit": "0 errors",
            "reason": "GPU 0: 3 uncorrectable ECC errors",
            "action": "reset the GPU",
            "source": "DCGM",
        }
    ],
}


@pytest.fixture(name="node")
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    return FakeNode(tmp_path)


def run(node: FakeNode, *argv: str, env: Known = IN_HOOK, answer: Known = None) -> int:
    """The command on a fake node, with an answer about its GPUs."""
    options = command.parser().parse_args([*argv, "--spool", str(node.spool)])
    told = answer or health()
    return command.check(
        options, env, lambda: node.world({"measure": lambda *_, **__: told})
    )


def real(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The real command."""
    given = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "gangstart", "check", *argv],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env=given | {"PYTHONIOENCODING": "utf-8"} | env,
    )


BAD = health("fail", drain=True)
CASES = [
    (health("ok"), 0, 0),
    (health("unknown"), 3, 0),
    (health("warn"), 1, 0),
    (health("fail"), 2, 0),
    (BAD, 2, command.EXIT_DRAIN),
    # A warning that only a reset mends, after a job: the core's decision.
    (health("warn", drain=True), 1, command.EXIT_DRAIN),
    (health("unknown", drain=True), 3, 0),
]


@pytest.mark.parametrize(("answer", "as_node", "in_hook"), CASES)
def test_exit_codes_are_as_documented(
    node: FakeNode, answer: Known, as_node: int, in_hook: int
) -> None:
    assert run(node, answer=answer) == as_node
    assert run(node, "--format", "nagios", answer=answer) == as_node
    for stage in ("prolog", "epilog"):
        assert run(node, "--stage", stage, answer=answer) == in_hook


def test_a_hook_says_one_line_on_stderr_and_nothing_else(
    node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    run(node, "--stage", "prolog", answer=health("fail", drain=True, findings=[]))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "gangstart: check prolog node=n7 job=501 verdict=fail, drain: fail it is\n"
    )


def test_the_decision_and_its_reason_are_recorded(node: FakeNode) -> None:
    answer = health("fail", drain=True, **EVENT)
    run(node, "--stage", "prolog", answer=answer)
    path = node.spool / "501.node" / "sys" / "events.jsonl"
    (line,) = path.read_text().splitlines()
    event = json.loads(line)
    VALID.validate(event)
    assert (event["drain"], event["node"], event["job"]) == (True, "n7", 501)
    assert event["reason"] == "GPU 0: 3 uncorrectable ECC errors"
    assert event["gpu"]["event"]["gpus"][0]["readings"]["temperature"] == 41


def test_what_cannot_be_recorded_is_said_and_changes_nothing(
    node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.spool.write_text("no folder")
    assert run(node, "--stage", "prolog", answer=BAD) == command.EXIT_DRAIN
    assert "this check could not be recorded in " in capsys.readouterr().err


def test_json_is_as_its_schema_says_in_every_stage(
    node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.add(
        7,
        FakeProcess(
            ("tensorboard",), cgroup=OURS, files=[GPU], listens=[("00000000", 6006)]
        ),
    )
    (node.roots.shm / "sem.x").write_text("x")
    node.port("mlx5_0", 1)
    node.port("mlx5_1", 1, state="1: DOWN")
    seen = set[str]()
    for stage in command.STAGES:
        run(node, "--stage", stage, "--json", answer=health("fail", **EVENT))
        event = json.loads(capsys.readouterr().out)
        VALID.validate(event)
        assert event["stage"] == stage
        seen |= {f["check"] for f in event["findings"]}
    assert seen >= {"leftover_gpu", "rdma", "dashboard"}
    for event in record.Spool(node.spool, 501).events():
        VALID.validate(event)


def test_the_record_of_a_cleanup_is_in_the_schema_too(node: FakeNode) -> None:
    heading = {"schema": "gangstart.check", "version": 1, "time": 1.0, "node": "n1"}
    heading |= {"stage": "epilog", "job": 501, "job_uid": 1001, "event": "cleanup"}
    left = {"pid": 7, "uid": 1001, "proof": "cgroup"}
    VALID.validate(heading | {"action": "SIGTERM", "processes": [left]})
    VALID.validate(heading | {"action": "unlink", "files": ["sem.x"]})
    assert not VALID.is_valid(heading | {"action": "rm -rf"})
    assert node.spool.exists() is False


def test_people_get_a_table_with_the_worst_first(
    node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    run(node, answer=health("fail", **EVENT), env={"SLURMD_NODENAME": "n7"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "n7: fail: fail it is"
    assert lines[1].split() == ["what", "verdict", "reason", "value", "limit"]
    assert lines[2] == (
        "GPU 0 NVIDIA H200 0000:00:00.0  fail     GPU 0: 3 uncorrectable ECC errors  "
        "3 errors  0 errors"
    )
    assert lines[3].split()[:6] == ["GPU", "1", "NVIDIA", "H200", "0000:01:00.0", "ok"]
    assert lines[4] == "next: reset the GPU"


def test_text_of_an_event_cannot_drive_the_terminal(
    node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = json.loads(json.dumps(EVENT))
    bad["gpus"][0]["name"] = bad["findings"][0]["reason"] = "\x1b[31m[bold]\u202e\nx"
    for arguments in ((), ("--format", "nagios"), ("--stage", "prolog")):
        run(node, *arguments, answer=health("fail", **bad))
    said = capsys.readouterr()
    assert "?[31m[bold]??x" in said.out
    assert not {"\x1b", "\u202e"} & set(said.out + said.err)


def test_nagios_gets_one_line_without_a_bar_in_its_text(
    node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = json.loads(json.dumps(EVENT))
    bad["findings"][0]["reason"] = "a|b"
    run(node, "--format", "nagios", answer=health("fail", **bad))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("GANGSTART CRITICAL - a/b | gpus=2 leftovers=0 shm=0 took=")


def test_a_check_that_cannot_be_made_is_unknown_to_nagios(tmp_path: Path) -> None:
    missing = tmp_path / "a|b.conf"
    done = real("--format", "nagios", "--conf", str(missing))
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("GANGSTART UNKNOWN - cannot read ")
    assert "|" not in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_is_told_why_nothing_is_recorded(
    node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.spool.mkdir(mode=0o755)
    os.chown(node.spool, 1001, 1001)
    assert run(node, "--stage", "prolog") == 0
    assert capsys.readouterr().err.splitlines()[1] == (
        f"gangstart: this check could not be recorded in {node.spool}: it belongs to "
        "another user, or others may write to it"
    )


def test_the_jobs_gpus_and_user_come_from_the_hooks_environment(
    node: FakeNode,
) -> None:
    options = command.parser().parse_args(["--stage", "prolog"])
    env = IN_HOOK | {"SLURM_JOB_GPUS": "0,2-3", "SLURM_JOB_START_TIME": "1700000000"}
    request = command.request_of(options, env)
    assert request.gpus == ["0", "2", "3"]
    assert request.job is not None
    assert (request.job.uid, request.job.started) == (1001, 1.7e9)
    other = command.parser().parse_args(["--stage", "prolog", "--job", "77"])
    assert command.job_of(other, env) == Job(77)
    assert not node.spool.exists()


@pytest.mark.parametrize("text", ["", "GPU-1", "0,", "1-", "0;1", "99999"])
def test_gpus_that_are_not_understood_are_not_known(text: str) -> None:
    assert command.indices(text) is None


def test_the_sites_files_come_from_plugstack_conf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    (tmp_path / "plugstack.conf").write_text(
        "optional spank_gangstart.so spool=/run/x conf=/etc/c probe=none\n"
    )
    request = command.request_of(command.parser().parse_args([]), {})
    assert (str(request.spool), request.conf, request.probe) == (
        "/run/x",
        "/etc/c",
        None,
    )


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--cleanup", "kill"], "--cleanup kill needs --stage epilog"),
        (["--deadline", "0"], "--deadline 0 is not 1 to 3600 seconds"),
        (["--deadline", "nan"], "--deadline nan is not 1 to 3600 seconds"),
        (["--job", "7.0"], "--job '7.0' is not a job's number such as 7877"),
        (["--json", "--format", "nagios"], "--json or --format nagios?"),
        (["--stage", "night"], "invalid choice: 'night'"),
        (["--explain", "ecc_un"], "did you mean ecc_unc"),
        (["--explain", "zzzzzz"], "gangstart check --explain lists them"),
    ],
)
def test_a_bad_argument_is_one_sentence(argv: list[str], sentence: str) -> None:
    done = real(*argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.startswith("gangstart: check: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({}, "--stage prolog needs --job ID"),
        ({"SLURM_JOB_ID": "7x"}, "SLURM_JOB_ID '7x' is no number"),
        ({"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"}, "a hook of slurmctld"),
    ],
)
def test_a_hook_that_is_set_up_wrong_says_so_and_drains_nothing(
    env: dict[str, str], sentence: str
) -> None:
    done = real("--stage", "prolog", **env)
    assert (done.returncode, done.stdout) == (0, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_check_is_explained_with_limit_source_and_action() -> None:
    gpu = real("--explain", "ecc_unc").stdout
    assert gpu.startswith("ecc_unc: uncorrectable ECC errors")
    assert "\n  limit       0 errors\n" in gpu
    assert "\n  what to do  reset the GPU" in gpu
    own = real("--explain", "dashboard").stdout
    assert "CVE-2023-48022" in own


@pytest.mark.parametrize(
    ("check", "drains"),
    [
        ("ecc_unc", "at any stage"),  # fail, at_end
        ("lost", "at any stage"),  # fail
        ("remap_pending", "only when it is found after a job's end"),  # warn, at_end
        ("remap_rows", "never"),  # warn
        ("exclusive", "never"),  # info
        ("leftover_process", "never"),
        ("leftover_gpu", "when its cgroup or its environment names the ended job"),
    ],
)
def test_when_a_check_drains_is_told(check: str, drains: str) -> None:
    told = catalogue.explained(catalogue.find(check))
    (line,) = [row for row in told.splitlines() if row.startswith("  drains")]
    assert line.split(None, 1)[1].startswith(drains)


def test_the_end_of_a_job_brings_its_records_to_the_archive(
    node: FakeNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    line = f"optional spank_gangstart.so archive={archive}\n"
    (tmp_path / "plugstack.conf").write_text(line)
    run(node, "--stage", "prolog")
    assert list(archive.iterdir()) == []
    run(node, "--stage", "epilog")
    own = node.spool / "501.node" / "sys" / "events.jsonl"
    kept = archive / "501.node" / "n7" / "sys" / "events.jsonl"
    assert kept.read_text() == own.read_text()
    assert [e["stage"] for e in record.read_events(kept)] == ["prolog", "epilog"]
    # An archive that is not there changes nothing, and is said in one line.
    (tmp_path / "plugstack.conf").write_text(line.replace("archive\n", "none/x\n"))
    capsys.readouterr()
    assert run(node, "--stage", "epilog", answer=BAD) == command.EXIT_DRAIN
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "none/x/501.node" in said[1]


def test_without_a_name_every_check_is_listed() -> None:
    lines = real("--explain").stdout.splitlines()
    names = {line.split()[0] for line in lines}
    assert names >= {
        "ecc_unc",
        "xid",
        "leftover_gpu",
        "dashboard",
        "rdma",
        "run_in_job",
    }
    assert len(names) == len(lines)


def test_the_path_of_a_prolog_imports_nothing_slow() -> None:
    code = (
        "import sys\nfrom gangstart.check import command, node\n"
        "slow = {'rich', 'difflib', 'gangstart._core', 'cffi', 'asyncio', 'ssl',"
        " 'multiprocessing', 'gangstart.check.view'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "[]\n"


def test_a_mistake_of_the_site_is_an_error_only_beside_hooks(node: FakeNode) -> None:
    def refuse(*_: Known, **__: Known) -> Known:
        raise GangstartError("gangstart.conf: line 3")

    options = command.parser().parse_args(["--spool", str(node.spool)])
    with pytest.raises(GangstartError, match="line 3"):
        command.check(options, {}, lambda: node.world({"measure": refuse}))
