"""Jobs of every kind around a start: arrays, parts, interactive, suspended ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import Gang, refusal, until
from cluster.launching import (
    CODE,
    FLAG,
    SHORT,
    check_line,
    check_plain,
    check_started,
    check_world,
    hurried,
    put_before_ours,
    rows_of,
    who,
)
from cluster.trouble import job_id, sabotage
from gangstart.cluster import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.cluster

#: Where srun may listen here: for its own connections, and for ours.
PORTS = range(61000, 61100)
HELD = " ".join(f"{k}={v}" for k, v in sabotage("task_init", "1", "exit=3").items())


@pytest.fixture(scope="module")
def own(module_gang: Callable[[Spec], Gang], saboteur: str) -> Gang:
    """A cluster where interactive jobs get a step, and jobs of several parts start."""
    made = module_gang(
        Spec(
            slurm_lines=(
                "SchedulerParameters=bf_interval=1",
                "LaunchParameters=use_interactive_step",
                f"SrunPortRange={PORTS.start}-{PORTS.stop - 1}",
            )
        )
    )
    put_before_ours(made, saboteur)
    return made


@pytest.fixture
def site(own: Gang, afresh: Callable[[Gang], Gang]) -> Gang:
    """Run steps there; after the test nothing of them is left."""
    return afresh(own)


def test_a_batch_script_with_the_flag_in_it(site: Gang) -> None:
    out, err = site.batch(
        script=f"#SBATCH -N4 -n4\n#SBATCH {FLAG}\nsrun {who(site)}; echo code $?"
    )
    assert f"code {CODE}\n" in out
    check_world(site, out, 4)
    check_line([line for line in err.splitlines() if "gang-start" in line], 4)


def test_a_batch_job_that_exports_nothing(site: Gang) -> None:
    # NONE would have slurmd log in as the user, for an environment.
    out, err = site.batch(
        *("-N4", "-n4", "--export=NIL", FLAG),
        script=f"PATH=/usr/bin:/bin srun {who(site)}; echo code $?",
    )
    assert f"code {CODE}\n" in out, err
    check_world(site, out, 4)


def test_one_refused_member_of_an_array_is_refused_alone(site: Gang) -> None:
    out, err = site.batch(
        *("-N2", "-n2", "--array=0-2", FLAG),
        script=f"if [ $SLURM_ARRAY_TASK_ID = 1 ]; then export {HELD}; fi\n"
        f"srun {who(site)}; echo member $SLURM_ARRAY_TASK_ID code $?",
    )
    ends = sorted(line for line in out.splitlines() if line.startswith("member"))
    assert ends == ["member 0 code 7", "member 1 code 75", "member 2 code 7"]
    assert sorted(row[4] for row in rows_of(out)) == ["0", "0", "1", "1"]
    assert err.count("gang-start: 2/2 tasks") == 2
    assert err.count("refused after") == 1


def test_one_refused_step_of_a_job_is_refused_alone(site: Gang) -> None:
    step = f"-N2 -n2 -c1 --exact {FLAG} {who(site)}"
    script = (
        f"srun {step}; echo a $? & {HELD} srun {step}; echo b $? & wait; "
        f"srun {step}; echo c $?"
    )
    ran = site.run(["salloc", "-Q", "-N2", "--ntasks-per-node=4", "sh", "-c", script])
    ends = [line for line in ran.out.splitlines() if line[:2] in {"a ", "b ", "c "}]
    assert sorted(ends) == ["a 7", "b 75", "c 7"], ran.err
    assert ran.err.count("gang-start: 2/2 tasks") == 2
    assert ran.err.count("refused after") == 1


def test_parts_of_a_batch_job_are_one_world_where_a_step_has_them_all(
    site: Gang,
) -> None:
    program = who(site)
    out, err = site.batch(
        script=f"#SBATCH -N2 -n2 {FLAG}\n#SBATCH hetjob\n#SBATCH -N1 -n2\n"
        f"srun --het-group=0,1 {program}; echo both $?\n"
        f"srun --het-group=1 {program} >{site.folder}/second; echo second $?",
    )
    assert f"both {CODE}\n" in out, err
    assert f"second {CODE}\n" in out, err
    rows = rows_of(out)
    assert [row[4] for row in rows] == ["0", "1", "2", "3"]
    assert {row[7] for row in rows} == {"4"}
    assert len({row[9:][0] for row in rows}) == 1
    second = rows_of((site.folder / "second").read_text())
    assert [row[4] for row in second] == ["0", "1"]
    assert {row[7] for row in second} == {"2"}
    assert err.count("gang-start: 4/4 tasks on 3/3 nodes") == 1
    assert err.count("gang-start: 2/2 tasks on 1/1 nodes") == 1


def test_from_the_shell_of_an_interactive_job(site: Gang) -> None:
    # The shell that salloc starts is SHELL: here it runs one step, from a node.
    shell = site.folder / "shell"
    shell.write_text(
        f"#!/bin/sh\necho shell on $SLURMD_NODENAME ${{RANK-none}}\nsrun {who(site)}\n"
    )
    shell.chmod(0o755)
    env = {"SHELL": str(shell)}
    words = ["salloc", "-Q", "-N4", "-n4"]
    ran = site.run([*words, FLAG], env=env)
    assert "shell on n1 none\n" in ran.out, ran.err
    check_started(site, ran, 4)
    site.quiet()
    plain = site.run(words, env=env)
    check_plain(plain, 4)
    site.quiet()
    held = sabotage("task_init", "1", "exit=3")
    assert set(refusal(site.run([*words, SHORT], env={**env, **held}))) == {"n2"}


def test_srun_listens_where_the_site_lets_it(site: Gang) -> None:
    late = site.folder / "late"
    running = site.start(
        ["srun", "-N4", "-n4", "--gang-start=60", who(site)],
        env=sabotage("task_init", "1", f"hold={late}"),
    )
    site.until_waiting(3)
    begin = "socket on head port "
    ports = [int(s.removeprefix(begin)) for s in site.sockets() if s.startswith(begin)]
    assert ports
    assert [port for port in ports if port not in PORTS] == []
    late.touch()
    check_started(site, running.wait(), 4)


def test_a_job_that_is_suspended_after_the_start_goes_on(site: Gang) -> None:
    go_on, program = site.folder / "go-on", site.folder / "wait.sh"
    program.write_text(
        f"#!/bin/sh\n: >{site.folder}/ran.$RANK\n"
        f"while [ ! -e {go_on} ]; do sleep 0.05; done\n. {who(site)}\n"
    )
    program.chmod(0o755)
    running = site.start(["srun", "-N4", "-n4", FLAG, program])
    until(lambda: site.started() == list(range(4)), "the start")
    job = job_id(site)
    assert site.run(["scontrol", "suspend", job]).code == 0

    def letters() -> set[str]:
        stats = [Path(f"/proc/{pid}/stat").read_text() for pid in site.pids("wait.sh")]
        return {stat.rpartition(")")[2].split()[0] for stat in stats}

    until(lambda: letters() == {"T"}, "the tasks to stop")
    assert site.run(["scontrol", "resume", job]).code == 0
    go_on.touch()
    check_started(site, running.wait(), 4)


def test_a_job_that_is_run_again_has_a_key_and_a_report_of_its_own(site: Gang) -> None:
    script, out = site.folder / "job.sh", site.folder / "out"
    script.write_text(
        "#!/bin/sh\n"
        f"[ ${{SLURM_RESTART_COUNT:-0}} != 0 ] || export {HELD}\n"
        f"srun {FLAG} {who(site)}; echo code $?\n"
        f"[ ${{SLURM_RESTART_COUNT:-0}} != 0 ] || scontrol requeue $SLURM_JOB_ID\n"
    )
    options = ("-N2", "-n2", "--requeue", "--open-mode=append", f"--output={out}")
    ran = site.run(["sbatch", "--parsable", *options, script])
    assert ran.code == 0, ran.err
    job = ran.out.strip()

    def ran_again() -> bool:
        hurried(site, job)
        return out.exists() and f"code {CODE}\n" in out.read_text()

    until(ran_again, "its second run", 100)
    text = out.read_text()
    assert text.count("refused after") == 1
    assert text.count("gang-start: 2/2 tasks") == 1
    told = [(copy["outcome"], copy["step"]["restart_count"]) for copy in site.copies()]
    # The report of a step is that of its latest run.
    assert told == [("released", 1)]
