"""Inside a step that the plugin has started: nothing to do twice, only to look again.

TaskProlog runs between the plugin's plan and the program, and what it prints as
"export NAME=value" replaces what was planned. Pure.
"""

from __future__ import annotations

from gangstart.errors import GangstartError
from gangstart.record import Record

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
    """This task was started by the plugin; warnings are sentences."""

    step: str
    warnings: tuple[str, ...]


def recognise(env: Mapping[str, str]) -> Inside | None:
    """Whether the plugin started this very step; None: it did not.

    Raises GangstartError (78) where ranks would not be what Slurm says.
    """
    step = f"{env.get('SLURM_JOB_ID', '')}.{env.get('SLURM_STEP_ID', '')}"
    if env.get("GANGSTART_STEP") != step:
        return None
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
