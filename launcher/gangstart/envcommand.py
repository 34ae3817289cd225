"""``gangstart env``: the variables that gang start gives this task, and why."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from gangstart import core, job
from gangstart.errors import GangstartError
from gangstart.site import defaults
from gangstart.usage import Parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPECIAL_STEPS = 0xFFFFFFF0  # from here on: batch, extern, interactive ...
ADDRESS = ("MASTER_ADDR", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "JAX_COORDINATOR_ADDRESS")
PORT = ("MASTER_PORT", "HOROVOD_GLOO_RENDEZVOUS_PORT")
OPEN_ADDRESS = (
    "rank 0's node; the start puts an address there that every node has reached"
)
OPEN_NAME = "rank 0's node, once every node has resolved and reached it"
OPEN_PORT = "the step's first choice; the start takes the next one if it is in use"


class View(NamedTuple):
    """The environment to plan for, and what of the start is already known."""

    env: Mapping[str, str]
    facts: core.EnvFacts
    shell: bool  # a job's shell: planned is rank 0 of a step of the whole job
    started: bool  # by gang start, so that the meeting place is known


class Row(NamedTuple):
    """One variable."""

    name: str
    value: str
    action: str  # set, keep, unset
    why: str


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart env",
        description="Print the variables that gang start gives this task. In the shell "
        "of a job: those of rank 0 in a step of all its tasks.",
        epilog="SPEC wins over SLURM_GANG_START, that over plugstack.conf, if this "
        "machine has one.",
    )
    made.add_argument("spec", nargs="?", metavar="SPEC", help="as for --gang-start")
    made.add_argument(
        "--explain", action="store_true", help="say what each is and where from"
    )
    made.add_argument("--json", action="store_true", help="print it for programs")
    return made


def main(argv: list[str]) -> int:
    """Plan, and show the plan."""
    options = parser().parse_args(argv)
    env = job.environ()
    given = [text for text in (env.get("SLURM_GANG_START"), options.spec) if text]
    spec = core.parse_spec(*given, arguments=defaults(env))
    view = look(env, spec, on=spec.on or not given)
    plan = core.env_plan(view.env, view.facts)
    if plan.outcome == "fail":
        raise GangstartError(f"env: {plan.message}", exit_code=plan.exit_code)
    rows = list(explain(plan, view, spec))
    if options.json:
        document = describe(plan, view, spec, rows)
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return 0
    for row in rows:
        sys.stdout.write(line(row, explained=options.explain) + "\n")
    for remark in remarks(plan, view):
        sys.stderr.write(f"gangstart: {remark}\n")
    return 0


def look(env: Mapping[str, str], spec: core.Spec, *, on: bool) -> View:
    """Find out where this runs: in a task, or in the shell of a job."""
    if not env.get("SLURM_JOB_ID"):
        raise GangstartError(
            "env: this is neither a task of a Slurm step nor the shell of a job "
            "(SLURM_JOB_ID is not set); run it by srun, or in a job of sbatch or "
            "salloc",
            exit_code=core.EXIT_CONFIG,
        )
    facts: dict[str, Any] = {
        "gang_on": on,
        "presets": spec.env_presets,
        "without": spec.env_without,
        "master_port": spec.master_port,
    }
    shell = not is_task(env)
    if shell:
        env = whole_job(env)
    started = not shell and env.get("GANGSTART_STEP") == step_name(env)
    if started:
        facts |= known(env)
        env = without_choice(env)
    return View(env, core.EnvFacts(**facts), shell, started)


def is_task(env: Mapping[str, str]) -> bool:
    """Tell a task of an ordinary step from a shell of sbatch or salloc."""
    step = env.get("SLURM_STEP_ID", "")
    return step.isdecimal() and int(step) < SPECIAL_STEPS and "SLURM_PROCID" in env


def step_name(env: Mapping[str, str]) -> str:
    """Name the step as squeue -s does."""
    return f"{env['SLURM_JOB_ID']}.{env.get('SLURM_STEP_ID', '')}"


def whole_job(env: Mapping[str, str]) -> dict[str, str]:
    """Make up the environment of rank 0 in a step of all of the job's tasks."""
    nodes = env.get("SLURM_JOB_NODELIST", "")
    counts = env.get("SLURM_TASKS_PER_NODE", "")
    if not nodes or not counts:
        raise GangstartError(
            "env: SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE do not tell the tasks "
            "of this job; run it by srun",
            exit_code=core.EXIT_CONFIG,
        )
    names = core.expand(nodes)
    return job.child_env(
        env,
        SLURM_STEP_ID="0",
        SLURM_STEP_NODELIST=nodes,
        SLURM_STEP_NUM_NODES=str(len(names)),
        SLURM_STEP_NUM_TASKS=str(sum(core.task_counts(counts))),
        SLURM_STEP_TASKS_PER_NODE=counts,
        SLURM_PROCID="0",
        SLURM_LOCALID="0",
        SLURM_NODEID="0",
        SLURM_GTIDS=None,
        SLURMD_NODENAME=names[0],
    )


def choice(env: Mapping[str, str]) -> tuple[str, str]:
    """Return address and port that gang start chose, "" for what it did not."""
    words = [*env.get("GANGSTART_MASTER", "").split(), "-", "-"]
    address, port = ("" if word == "-" else word for word in words[:2])
    return address, port


def known(env: Mapping[str, str]) -> dict[str, Any]:
    """Collect what a start has told this task."""
    address, port = choice(env)
    facts: dict[str, Any] = {"report": env.get("GANGSTART_REPORT")}
    if address:
        facts["master_addr"] = address
    if port.isdecimal():
        facts["master_port"] = int(port)
    try:
        facts["t0"] = float(env.get("GANGSTART_T0", ""))
    except ValueError:
        facts["t0"] = 0.0
    return facts


def without_choice(env: Mapping[str, str]) -> dict[str, str]:
    """Leave out MASTER_* where they are gang start's own: not the user's values."""
    chosen = dict(zip(("MASTER_ADDR", "MASTER_PORT"), choice(env), strict=True))
    return {n: v for n, v in env.items() if not v or chosen.get(n) != v}


def explain(plan: core.EnvPlan, view: View, spec: core.Spec) -> Iterator[Row]:
    """Say of each variable what becomes of it, and why."""
    for name, why in plan.why.items():
        if name in plan.unset:
            yield Row(name, "", "unset", "left by the gang start of another step")
        elif name in plan.keep:
            yield Row(name, plan.keep[name], "keep", "your own value, kept")
        else:
            reason = why if view.started else pending(name, plan, spec) or why
            yield Row(name, plan.set[name], "set", reason)


def pending(name: str, plan: core.EnvPlan, spec: core.Spec) -> str:
    """Say what a start has still to find out about a variable; "" if nothing."""
    place = OPEN_NAME if spec.master_name else OPEN_ADDRESS
    port = "master-port= of the SPEC" if spec.master_port else OPEN_PORT
    if name in ADDRESS:
        return "your MASTER_ADDR" if "MASTER_ADDR" in plan.keep else place
    if name in PORT:
        return "your MASTER_PORT" if "MASTER_PORT" in plan.keep else port
    return ""


def remarks(plan: core.EnvPlan, view: View) -> Iterator[str]:
    """What to say beside the variables."""
    if view.shell:
        tasks = view.env["SLURM_STEP_NUM_TASKS"]
        yield f"this is the shell of a job; shown is rank 0 in a step of {tasks} tasks"
    if plan.outcome == "noop":
        yield "gang start is off: no variable is set"
    if plan.message:
        yield plan.message


def line(row: Row, *, explained: bool) -> str:
    """One variable as a shell reads it; the reason is a comment there."""
    words = f"{row.name}={shlex.quote(row.value)}"
    if row.action == "unset":
        words = f"unset {row.name}"
    return f"{words}  # {row.why}" if explained else words


def describe(
    plan: core.EnvPlan, view: View, spec: core.Spec, rows: list[Row]
) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "step": None if view.shell else step_name(view.env),
        "rank": int(view.env["SLURM_PROCID"]),
        "shell": view.shell,
        "started": view.started,
        "spec": spec.canonical,
        "outcome": plan.outcome,
        "variables": [row._asdict() for row in rows],
        "warnings": list(plan.warnings),
        "message": plan.message,
    }
