"""Every hook in every context: 0, always, and nobody else's step is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from plugin.fakeslurm import Run, Slurm

BATCH, INTERACTIVE, EXTERN = "0xfffffffb", "0xfffffffa", "0xfffffffc"
KEY = "5a" * 32
PORT = 1  # nobody listens there
RDZV = f"2:{PORT}:0:0:0:{KEY}:on,timeout=5"
ONE = {"n001": "0"}

MALFORMED = {
    "empty": "",
    "one word": "hello",
    "another version": RDZV.replace("2:", "3:", 1),
    "no port": f"1::0:{KEY}:on",
    "no first port": f"2:{PORT}:x:0:0:{KEY}:on",
    "port too high": f"2:70000:0:0:0:{KEY}:on",
    "negative port": f"2:-1:0:0:0:{KEY}:on",
    "no restarts": f"2:{PORT}:0:0:{KEY}:on",
    "short key": f"2:{PORT}:0:0:0:{KEY[:-2]}:on",
    "long key": f"2:{PORT}:0:0:0:{KEY}5a:on",
    "odd key": f"2:{PORT}:0:0:0:{KEY[:-1]}:on",
    "key with a wrong digit": f"2:{PORT}:0:0:0:{KEY[:-1]}g:on",
    "no spec": f"2:{PORT}:0:0:0:{KEY}",
    "unknown key": f"2:{PORT}:0:0:0:{KEY}:on,colour=red",
    "bad value": f"2:{PORT}:0:0:0:{KEY}:on,timeout=never",
    "format letters": "%s%n%s%n:%x",
    "controls": "1:\x01\x02\x7f\n\r:0",
    "all colons": ":" * 200,
    "very long": "2:1:0:0:0:" + "a" * 100_000,
    "very long spec": RDZV + ",report=/" + "x" * 3000,
}


def codes(run: Run) -> set[int]:
    """What the hooks returned."""
    found = {int(e["rc"]) for e in run.all("hook")}
    assert found, "no hook was called"
    return found


@pytest.mark.parametrize("context", ["slurmd", "sbatch", "salloc", "epilog"])
@pytest.mark.parametrize("flag", ["", "--gang-start=60"])
def test_every_hook_returns_0_outside_a_step(
    slurm: Slurm, context: str, flag: str
) -> None:
    run = slurm.start(
        context, *([flag] if flag else []), args=["archive=/nowhere/at/all"]
    )

    assert run.finish() == 0
    assert codes(run) == {0}
    assert run.stderr == ""


@pytest.mark.parametrize(
    "step", [BATCH, INTERACTIVE, EXTERN], ids=["batch", "interactive", "extern"]
)
def test_special_steps_run_as_if_there_was_no_plugin(slurm: Slurm, step: str) -> None:
    run = slurm.stepd(
        {"SLURM_GANG_RDZV": RDZV, "A": "b"}, "--gang-start", "--step", step, nodes=ONE
    )

    assert run.finish() == 0
    assert codes(run) == {0}
    assert run.stderr == ""
    if step != EXTERN:
        assert slurm.found(0)["env"]["A"] == "b"
        assert "SLURM_GANG_RDZV" not in slurm.found(0)["env"]
        assert "RANK" not in slurm.found(0)["env"]
    assert not slurm.spool.exists()


def test_a_step_without_rendezvous_runs_as_if_there_was_no_plugin(slurm: Slurm) -> None:
    run = slurm.stepd({"A": "b"}, nodes={"n001": "0,1"}, ranks={1: "then:9"})

    assert run.finish() == 0
    assert codes(run) == {0}
    assert run.status(1) == 9 << 8
    assert slurm.ran() == [0, 1]
    assert run.stderr == ""


def test_every_hook_of_a_good_step_returns_0(slurm: Slurm) -> None:
    run = slurm.srun(nodes={"n001": "0,1", "n002": "2"})

    assert run.finish() == 0
    assert codes(run) == {0}


def test_every_hook_of_a_refused_step_returns_0(slurm: Slurm) -> None:
    run = slurm.srun(nodes={"n001": "0,1", "n002": "2"}, ranks={2: "exit:1"})

    assert run.finish() == 75
    assert codes(run) == {0}
    assert not run.all("hook", hook="slurm_spank_task_init")  # they ended in it


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_rendezvous_that_cannot_be_read_starts_nobody(
    slurm: Slurm, text: str
) -> None:
    run = slurm.stepd({"SLURM_GANG_RDZV": text}, nodes={"n001": "0,1"})

    assert run.finish() == 0
    assert codes(run) == {0}
    assert (run.status(0), run.status(1)) == (75 << 8, 75 << 8)
    assert slurm.ran() == []
    (line,) = run.lines
    assert "this node cannot take part in the gang start: " in line
    assert line.isprintable()


def test_an_srun_that_is_gone_starts_nobody(slurm: Slurm) -> None:
    run = slurm.stepd({"SLURM_GANG_RDZV": RDZV}, nodes={"n001": "0,1"})

    assert run.finish() == 0
    assert (run.status(0), run.status(1)) == (75 << 8, 75 << 8)
    assert slurm.ran() == []


def test_a_step_whose_nodes_got_another_rendezvous_is_refused(slurm: Slurm) -> None:
    run = slurm.srun("--gang-start=60", "--rdzv", "nonsense", nodes={"n001": "0,1"})

    assert run.finish() == 75
    assert slurm.ran() == []


def bad_ways(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    return {
        "flag": (f"--gang-start={text}", {}),
        "variable": ("", {"SLURM_GANG_START": text}),
    }


@pytest.mark.parametrize("context", ["srun", "sbatch", "salloc"])
@pytest.mark.parametrize("way", ["flag", "variable"])
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("timeout=0", ["timeout", "0", "1", "86400"]),
        ("colour=red", ["colour"]),
        ("health=sometimes", ["health", "sometimes", "require"]),
        ("spool=/tmp", ["spool", "plugstack.conf"]),
        ("timeout=5,timeout=6", ["timeout"]),
    ],
)
def test_a_bad_option_ends_the_command_with_one_line_and_78(
    slurm: Slurm, context: str, way: str, text: str, named: list[str]
) -> None:
    flag, env = bad_ways(text)[way]
    run = slurm.start(context, *([flag] if flag else []), nodes=ONE, env=env)

    assert run.finish() == 78
    (line,) = run.lines
    assert line.startswith(f"{context}: error: gang-start: ")
    assert all(word in line for word in named), line
    assert ("SLURM_GANG_START: " in line) == (way == "variable")
    assert run.all("stepd") == []


@pytest.mark.parametrize("arg", ["colour=red", "timeout=never", "on", "ports=9-1"])
def test_a_bad_plugstack_line_harms_nobody_who_did_not_ask(
    slurm: Slurm, arg: str
) -> None:
    run = slurm.srun("", nodes=ONE, args=[arg])

    assert run.finish() == 0
    assert codes(run) == {0}
    assert run.stderr == ""
    assert slurm.ran() == [0]


@pytest.mark.parametrize("arg", ["colour=red", "timeout=never", "on", "ports=9-1"])
def test_a_bad_plugstack_line_ends_a_gang_start_with_one_line_and_78(
    slurm: Slurm, arg: str
) -> None:
    run = slurm.srun("--gang-start", nodes=ONE, args=[arg])

    assert run.finish() == 78
    (line,) = run.lines
    assert "plugstack.conf" in line
    assert arg.split("=", maxsplit=1)[0] in line
    assert run.all("stepd") == []


def test_a_bad_plugstack_line_on_a_node_alone_refuses_the_start(slurm: Slurm) -> None:
    run = slurm.srun("--gang-start=60", nodes={"n001": "0", "n002": "1:odd"})

    assert run.finish() == 78
    (line,) = [line for line in run.lines if "n00" in line]
    assert line.split()[0] == "n002"
    assert "plugstack.conf" in line
    assert "colour" in line
    assert slurm.ran() == []


def test_a_start_survives_a_spool_that_cannot_be_written(slurm: Slurm) -> None:
    slurm.spool.write_text("a file where a folder should be", encoding="utf-8")
    run = slurm.srun(nodes={"n001": "0", "n002": "1"})

    assert run.finish() == 0
    assert slurm.ran() == [0, 1]
    assert run.lines[0].startswith("gang-start: 2/2 tasks")
    assert len(run.lines) == 1
    assert any("no spool" in e["text"] for e in run.all("log", level="info"))


def test_a_start_survives_a_report_that_cannot_be_written(slurm: Slurm) -> None:
    run = slurm.srun("--gang-start=report=/proc/none/of/this.json", nodes=ONE)

    assert run.finish() == 0
    assert slurm.ran() == [0]
    assert len(run.lines) == 2
    assert "/proc/none/of/this.json" in run.stderr


@pytest.mark.parametrize(
    "name",
    [
        "$(touch {})",
        "`touch {}`",
        "n1;touch {}",
        "n1|touch {}",
        "-h",
        "--help",
        "-s {}",
    ],
)
def test_a_name_that_root_looks_up_is_never_a_command(slurm: Slurm, name: str) -> None:
    trace = slurm.folder / "trace"
    address = name.format(trace)
    run = slurm.srun("--gang-start=60", nodes=ONE, env={"MASTER_ADDR": address})

    assert run.finish() == 78
    assert "is not one host name or address" in run.stderr
    assert not trace.exists()
    assert slurm.ran() == []
