"""Ask pyslurm, in a process of its own: libslurm may hang, or end its process.

Started with one JSON object as its argument: {"do": "fit"}, {"do": "controller" or
"accounting", "job": N} or {"do": "nodes", "names": […]}. Prints one JSON object:
{"found": […]} with objects as pyslurm's to_dict() makes them, or {"error": "…"}.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NO_JOB = "Invalid job id"


def main(argv: Sequence[str]) -> int:
    """Answer one request."""
    request = json.loads(argv[0])
    try:
        pyslurm = importlib.import_module("pyslurm")
    except ImportError as error:
        return say({"error": f"pyslurm cannot be imported: {error}"})
    trouble: type[Exception] = pyslurm.PyslurmError
    try:
        found = ASKED[request["do"]](pyslurm, request)
    except trouble as error:
        told = str(error)
        return say({"found": []} if NO_JOB in told else {"error": told})
    except AttributeError as error:  # another generation of pyslurm
        return say({"error": f"this pyslurm is not of a known kind: {error}"})
    return say({"found": found})


def say(told: dict[str, Any]) -> int:
    """Print the answer."""
    sys.stdout.write(json.dumps(told, default=plain) + "\n")
    return 0


def plain(thing: Any) -> Any:  # noqa: ANN401
    """An object of pyslurm inside of another as plain data."""
    return thing.to_dict() if hasattr(thing, "to_dict") else str(thing)


def fit(pyslurm: Any, _request: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: ANN401
    """Version of pyslurm, which is that of the Slurm it was made for."""
    return [{"pyslurm": str(pyslurm.__version__)}]


def controller(pyslurm: Any, request: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: ANN401
    """Records of slurmctld: of an array or heterogeneous job all of them."""
    number = request["job"]
    first = pyslurm.Job.load(number)
    if first.array_id is None and first.heterogeneous_id is None:
        return dicts([first])
    every = pyslurm.Jobs.load().values()
    return dicts(
        one for one in every if number in (one.id, one.array_id, one.heterogeneous_id)
    )


def accounting(pyslurm: Any, request: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: ANN401
    """Records of slurmdbd, with their steps."""
    wanted = pyslurm.db.JobFilter(ids=[request["job"]])
    return dicts(pyslurm.db.Jobs.load(wanted).values())


def nodes(pyslurm: Any, request: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: ANN401
    """Nodes of these names."""
    every = pyslurm.Nodes.load()
    return dicts(every[name] for name in request["names"] if name in every)


def dicts(found: Iterable[Any]) -> list[dict[str, Any]]:
    """Objects of pyslurm as plain data."""
    return [one.to_dict() for one in found]


ASKED: dict[str, Callable[[Any, dict[str, Any]], list[dict[str, Any]]]] = {
    "fit": fit,
    "controller": controller,
    "accounting": accounting,
    "nodes": nodes,
}
