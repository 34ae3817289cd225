"""Inside a step that has been started: nothing to do twice, only to look again.

TaskProlog runs between the plugin's plan and the program, and what it prints as
"export NAME=value" replaces what was planned. Pure.
"""

from __future__ import annotations

from gangstart.errors import GangstartError
from gangstart.record import Record
from gangstart.run.launched import SRUN, by_launcher, own_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

EXIT_CONFIG = 78
SAME = (
    ("RANK", ("SLURM_PROCID",)),
    ("WORLD_SIZE", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    ("LOCAL_RANK", ("SLURM_LOCALID",)),
)


class Inside(Record):
    """This task was started already; warnings are sentences."""

    step: str
    warnings: tuple[str, ...]


def recognise(env: Mapping[str, str]) -> Inside | None:
    """Whether the plugin, or gangstart run, started this very step; None: neither did.

    Raises GangstartError (78) where ranks would not be what Slurm says.
    """
    step = f"{env.get('SLURM_JOB_ID', '')}.{env.get('SLURM_STEP_ID', '')}"
    if env.get("GANGSTART_STEP") != step:
        return Inside(step, ()) if is_below_run(env) else None
    for name, sources in SAME:
        source = next((one for one in sources if one in env), None)
        if source is not None and name in env and env[name] != env[source]:
            raise GangstartError(
                f"run: {name}={env[name]}, but {source}={env[source]}: something "
                f"between the start of step {step} and here set it, most likely "
                f"TaskProlog; remove it there",
                exit_code=EXIT_CONFIG,
            )
    return Inside(step, tuple(changed(env)))


def is_below_run(env: Mapping[str, str]) -> bool:
    """Whether gangstart run started this program, and no mpirun in it did.

    Its ranks have no launcher any more: a second start would be one of each alone, with
    RANK 0 for everybody.
    """
    if env.get("GANGSTART_RUN") != own_step(env):
        return False
    one = by_launcher(env)
    return one is None or one.name == SRUN


def changed(env: Mapping[str, str]) -> list[str]:
    """What is no longer as the plugin proved it; "-" was the user's own all along."""
    proven = env.get("GANGSTART_MASTER", "").split()
    names = ("MASTER_ADDR", "MASTER_PORT")
    return [
        f"{name}={env.get(name, '')} is not {value}, which every node of the step had "
        "reached: something after the start set it, most likely TaskProlog"
        for name, value in zip(names, proven, strict=False)
        if value != "-" and name in env and env[name] != value
    ]
