"""The scripts in slurm-conf/: what they make of exit codes, and no Slurm command."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from repo import ROOT, text

if TYPE_CHECKING:
    from pathlib import Path

CONF = ROOT / "slurm-conf"
PROLOG = CONF / "prolog.d" / "50-gangstart"
EPILOG = CONF / "epilog.d" / "50-gangstart"
HEALTH = CONF / "healthcheck"
REASON = CONF / "set-reason"
SLURM = re.compile(r"\b(scontrol|squeue|sinfo|sacct|sacctmgr|srun|sbatch|scancel)\b")


def program(folder: Path, body: str) -> Path:
    """A gangstart of our own."""
    path = folder / "gangstart"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def run(script: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(script), *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.defpath} | env,
    )


@pytest.mark.parametrize("script", [PROLOG, EPILOG])
@pytest.mark.parametrize(
    ("code", "result"), [(0, 0), (69, 1), (1, 0), (2, 0), (3, 0), (124, 0), (137, 0)]
)
def test_only_the_code_for_a_drain_fails_a_hook(
    tmp_path: Path, script: Path, code: int, result: int
) -> None:
    own = program(tmp_path, f"exit {code}")
    assert run(script, GANGSTART=str(own)).returncode == result


@pytest.mark.parametrize("script", [PROLOG, EPILOG])
def test_a_missing_gangstart_drains_nothing(tmp_path: Path, script: Path) -> None:
    assert run(script, GANGSTART=str(tmp_path / "none")).returncode == 0


@pytest.mark.parametrize("script", [PROLOG, EPILOG])
def test_a_check_that_did_not_happen_is_told_to_syslog(
    tmp_path: Path, script: Path
) -> None:
    logger = tmp_path / "logger"
    logger.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/log\nexit 1\n')
    logger.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.defpath])
    for code in (0, 69):
        run(script, GANGSTART=str(program(tmp_path, f"exit {code}")), PATH=path)
    assert not (tmp_path / "log").exists()
    none = str(tmp_path / "none")
    assert run(script, GANGSTART=none, PATH=path, SLURM_JOB_ID="7").returncode == 0
    stage = script.parent.name.removesuffix(".d")
    assert (tmp_path / "log").read_text() == (
        f"-t gangstart {stage} of job 7: no check: code 127\n"
    )


@pytest.mark.parametrize(
    ("script", "env", "arguments"),
    [
        (PROLOG, {}, "check --stage prolog"),
        (EPILOG, {}, "check --stage epilog --cleanup report"),
        (EPILOG, {"CLEANUP": "kill"}, "check --stage epilog --cleanup kill"),
        (HEALTH, {}, "check --stage node --format nagios"),
    ],
)
def test_each_hook_asks_for_its_stage(
    tmp_path: Path, script: Path, env: dict[str, str], arguments: str
) -> None:
    own = program(tmp_path, 'echo "$@"')
    assert run(script, GANGSTART=str(own), **env).stdout == f"{arguments}\n"


@pytest.mark.parametrize("script", [PROLOG, EPILOG, HEALTH])
def test_a_hook_has_a_path_though_slurm_gives_it_none(
    tmp_path: Path, script: Path
) -> None:
    own = program(tmp_path, "/usr/bin/env")
    done = subprocess.run(
        ["/bin/sh", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"GANGSTART": str(own)},
    )
    (path,) = re.findall(r"^PATH=(.*)$", done.stdout, re.MULTILINE)
    assert "/usr/local/bin" in path.split(":")


def test_the_health_check_hands_the_code_on(tmp_path: Path) -> None:
    own = program(tmp_path, "exit 3")
    assert run(HEALTH, GANGSTART=str(own)).returncode == 3


@pytest.mark.parametrize("script", [PROLOG, EPILOG, HEALTH])
def test_a_hook_on_a_node_calls_no_slurm_command_and_has_a_deadline(
    script: Path,
) -> None:
    code = [line for line in text(script).splitlines() if not line.startswith("#")]
    assert not SLURM.search("\n".join(code))
    assert any("timeout -k 5 45 " in line for line in code)
    assert os.access(script, os.X_OK)


def test_a_real_prolog_on_this_machine_records_its_check(tmp_path: Path) -> None:
    own = program(tmp_path, f'exec {sys.executable} -m gangstart "$@"')
    (tmp_path / "plugstack.conf").write_text(
        f"optional spank_gangstart.so spool={tmp_path / 'spool'}\n"
    )
    done = run(
        PROLOG,
        GANGSTART=str(own),
        PYTHONPATH=os.pathsep.join(sys.path),
        SLURM_CONF=str(tmp_path / "slurm.conf"),
        SLURM_JOB_ID="501",
        SLURM_JOB_UID="1001",
        SLURMD_NODENAME="n7",
    )
    assert done.stdout == ""
    assert done.stderr.startswith("gangstart: check prolog node=n7 job=501 verdict=")
    assert done.stderr.count("\n") == 1
    (line,) = (tmp_path / "spool/501.node/sys/events.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert (event["event"], event["job_uid"]) == ("check", 1001)
    assert done.returncode == int(event["drain"])


def events(path: Path, *events: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + "broken\n")
    return path


def drain(node: str, reason: str, *, drain: bool = True) -> dict[str, object]:
    return {"event": "check", "node": node, "reason": reason, "drain": drain}


@pytest.fixture(name="tools")
def both(tmp_path: Path) -> dict[str, str]:
    """Our gangstart, and a scontrol that shows its arguments."""
    (tmp_path / "bin").mkdir()
    own = program(tmp_path / "bin", f'exec {sys.executable} -m gangstart "$@"')
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text('#!/bin/sh\nprintf "<%s>" "$@"; echo\n')
    scontrol.chmod(0o755)
    return {
        "GANGSTART": str(own),
        "SCONTROL": str(scontrol),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


def test_a_reason_can_be_given(tools: dict[str, str]) -> None:
    done = run(REASON, "n1", "GPU", "3 fell off", **tools)
    assert done.stdout == "<update><NodeName=n1><Reason=GPU 3 fell off>\n"


def test_reasons_come_from_the_newest_drain_of_each_node(
    tmp_path: Path, tools: dict[str, str]
) -> None:
    path = events(
        tmp_path / "events.jsonl",
        drain("n1", "old"),
        drain("n1", "GPU 3: $(reboot) `x` 'y'"),
        drain("n2", "fine", drain=False),
        drain("n3", "a\nb"),
        drain("n4 State=RESUME", "evil"),
        drain("-n5", "evil"),
    )
    done = run(REASON, "--events", str(path), **tools)
    assert done.stdout.splitlines() == [
        "<update><NodeName=n1><Reason=gangstart: GPU 3: $(reboot) `x` 'y'>",
        "<update><NodeName=n3><Reason=gangstart: a?b>",
    ]


def test_records_that_are_not_there_are_an_error(
    tmp_path: Path, tools: dict[str, str]
) -> None:
    done = run(REASON, "--events", str(tmp_path / "none"), **tools)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is no file: --reasons takes events.jsonl files" in done.stderr


@pytest.mark.parametrize("argv", [[], ["-h"], ["n1"], ["--events"]])
def test_a_call_without_what_is_needed_says_how(
    argv: list[str], tools: dict[str, str]
) -> None:
    done = run(REASON, *argv, **tools)
    assert (done.returncode, done.stdout) == (2, "")
    assert "set-reason" in done.stderr


def test_the_service_runs_what_there_is() -> None:
    unit = text(CONF / "systemd" / "gangstart-check.service")
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = shlex.split(line)
    assert words[:3] == ["/usr/bin/env", "gangstart", "check"]
    from gangstart.check import command  # noqa: PLC0415 - only to read a line

    command.refuse(command.parser().parse_args(words[3:]))
