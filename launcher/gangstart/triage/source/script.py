"""What a batch script says of files: #SBATCH lines, NCCL's and torch's settings. Pure.

The script is the user's: it is searched for a few words, never run or expanded by a
shell. A value with a variable that Slurm does not set the same for all is passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangstart.triage.source import cmdline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangstart.triage.source.record import Record

SCRIPT_MOST = 4 << 20  # characters; Slurm's own most for a script (max_script_size)
LINE_MOST = 1 << 14
#: What is looked for -> what it is called here.
SETTINGS = {
    "NCCL_DEBUG_FILE": "nccl",
    "TORCHELASTIC_ERROR_FILE": "error",
    "--log-dir": "log",
    "--log_dir": "log",
}
SETTING = re.compile(
    r"(?:^|[\s;,(\"'])(NCCL_DEBUG_FILE|TORCHELASTIC_ERROR_FILE|--log[-_]dir)[= ]"
    r"(\"[^\"\n]{1,4096}\"|'[^'\n]{1,4096}'|[^\s;,&|\"'()]{1,4096})"
)
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
SHELL = re.compile(r"[$`]")
DIRECTIVE = re.compile(r"\s*#SBATCH\s+(.*)")


@dataclass(frozen=True)
class Script:
    """What a script says; paths as they stand there, variables filled in."""

    nccl: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)  # of #SBATCH, see cmdline


def variables(record: Record) -> dict[str, str]:
    """Variables that are the same in all of a job."""
    array = record.number if record.array is None else record.array
    return {
        "SLURM_JOB_ID": str(record.number),
        "SLURM_JOBID": str(record.number),
        "SLURM_JOB_NAME": record.name,
        "SLURM_ARRAY_JOB_ID": str(array),
        "SLURM_ARRAY_TASK_ID": "" if record.task is None else str(record.task),
        "SLURM_SUBMIT_DIR": record.work_dir,
        "PWD": record.work_dir,
        "USER": record.user,
    }


def read(text: str, names: Mapping[str, str], io: Mapping[str, str]) -> Script:
    """Search a script; `io` maps spellings of sbatch's options to keys."""
    found: dict[str, list[str]] = {"nccl": [], "error": [], "log": []}
    options: dict[str, str] = {}
    for raw in text[:SCRIPT_MOST].splitlines():
        line = raw[:LINE_MOST]
        directive = DIRECTIVE.match(line)
        if directive:
            words = ["sbatch", *cmdline.split(directive[1])]
            options |= cmdline.slurm_options(words, io)
        elif not line.lstrip().startswith("#"):
            for name, value in SETTING.findall(line):
                path = filled(value, names)
                found[SETTINGS[name]] += [path] if path else []
    kept = {name: tuple(dict.fromkeys(paths)) for name, paths in found.items()}
    return Script(**kept, options=options)


def filled(value: str, names: Mapping[str, str]) -> str:
    """A value without its quotes and with its variables; "" if one is not known."""
    if value.startswith("'"):
        return value[1:-1]
    bare = value.strip('"')
    known = VARIABLE.sub(lambda m: names.get(m[1] or m[2], m[0]), bare)
    return "" if SHELL.search(known) else known
