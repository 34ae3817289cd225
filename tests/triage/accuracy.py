"""How often triage is right: the corpus, case by case, and docs/accuracy.md.

python tests/triage/accuracy.py           print the table
python tests/triage/accuracy.py --write   print it and write it into the page
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from cases.compare import broken_claims
from cases.triagecase import triage

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
FOLDERS = (ROOT / "tests" / "cases" / "given", ROOT / "tests" / "corpus")
#: What a cause belongs to, in the order of the table.
CATEGORIES = {
    "program": "APP_EXCEPTION APP_EXIT APP_ILLEGAL_ACCESS SEGFAULT CHECKPOINT_CORRUPT",
    "memory": "CUDA_OOM HOST_OOM SHM_FULL",
    "storage": "DISK_FULL DISK_QUOTA FS_STALE FD_LIMIT",
    "GPU hardware and state": "GPU_FELL_OFF_BUS GPU_ECC GPU_NVLINK GPU_HW GPU_BUSY "
    "GPU_COUNT GPU_LEFTOVER_MEMORY GPU_BINDING DUPLICATE_GPU FABRIC_MANAGER "
    "THERMAL_STRAGGLER",
    "node and launch": "NODE_SOFTWARE NODE_FAIL LAUNCH_FAILED PROLOG_FAIL CRED_EXPIRED "
    "CONTAINER_START KILL_TASK_FAILED",
    "start and rendezvous": "BARRIER_TIMEOUT RENDEZVOUS_TIMEOUT BAD_MASTER_ADDR "
    "PORT_IN_USE RANK0_LATE STALE_INCARNATION MPI_SINGLETON",
    "network and collectives": "NET_IB NET_SOCKET NCCL_INTERNAL NCCL_FIRST_COLLECTIVE "
    "NCCL_TIMEOUT COLLECTIVE_MISMATCH",
    "ended by Slurm or a person": "TIME_LIMIT PREEMPTED USER_CANCEL WAITTIME_KILL",
    "nothing wrong, or not known": "NO_FAILURE UNKNOWN",
}
CATEGORY = {code: name for name, codes in CATEGORIES.items() for code in codes.split()}


class Result(NamedTuple):
    """One case."""

    name: str
    category: str
    first: bool  # the named cause is the right one
    whole: bool  # and so are node, rank and everything else that is asked for
    blamed: bool  # it names an innocent: a cause, node or rank that is not it
    unknown: bool  # it says UNKNOWN where there is an answer


def cases() -> list[dict[str, Any]]:
    """All triage cases of the repository."""
    found = [
        json.loads(path.read_text())
        for folder in FOLDERS
        for path in sorted(folder.glob("*.json"))
    ]
    return [case for case in found if case["kind"] == "triage"]


def judge(case: dict[str, Any]) -> Result:
    """Ask the product about one case."""
    answer, expected = triage(case["input"]), case["expected"]
    code, wanted = answer["root_cause"], expected["root_cause"]
    # The names of nodes and ranks count as blame only if the case names the right one.
    wrong = any(
        name in expected and answer[name] is not None and answer[name] != expected[name]
        for name in ("node", "rank")
    )
    fine = {wanted, *expected["also_acceptable"], "UNKNOWN"}
    return Result(
        case["id"],
        CATEGORY[wanted],
        first=code == wanted,
        whole=not broken_claims(case, answer),
        blamed=code not in fine or wrong,
        unknown=code == "UNKNOWN" and wanted != "UNKNOWN",
    )


def share(part: int, whole: int) -> str:
    """A share as a percentage."""
    return f"{100 * part / whole:.1f} %"


def row(name: str, results: list[Result]) -> str:
    """One line of the table."""
    count = len(results)
    parts = [sum(getattr(r, key) for r in results) for key in Result._fields[2:]]
    return f"| {name} | {count} | " + " | ".join(share(p, count) for p in parts) + " |"


def table(results: list[Result]) -> str:
    """The table of docs/accuracy.md."""
    by_name: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_name[result.category].append(result)
    lines = [
        "| category | cases | cause right | all right | false blame | said UNKNOWN |",
        "|---|---:|---:|---:|---:|---:|",
        *(row(name, by_name[name]) for name in CATEGORIES if by_name[name]),
        row("**all**", results),
    ]
    return "\n".join(lines)


def page_table() -> str:
    """The table as the page has it now."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()


def main(arguments: list[str]) -> int:
    """Measure, print, and write the page if asked to."""
    results = [judge(case) for case in cases()]
    for result in results:
        if not result.whole:
            print(f"{result.name}: {'' if result.first else 'cause '}not right")
    made = table(results)
    print(made)
    if "--write" in arguments:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
