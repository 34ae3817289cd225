"""Gang start for Slurm: everybody present, wired and healthy before step one.

As a library (docs/library.md): ``current()`` says who this process is, ``barrier()``
waits for all ranks and names the missing ones, ``heartbeat()`` tells how far the
training is, ``health()`` looks at the node's GPUs. Each is loaded at its first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own would cost ten times what the rest does
if TYPE_CHECKING:
    from gangstart.beat import heartbeat
    from gangstart.errors import GangstartError
    from gangstart.gpuhealth import Gpu, GpuFinding, NodeHealth, health
    from gangstart.meeting import (
        BarrierError,
        BarrierLostError,
        BarrierMismatchError,
        BarrierTimeoutError,
        Missing,
        Passed,
        barrier,
    )
    from gangstart.step import Step, current

__version__ = "0.1.0"

__all__ = [
    "BarrierError",
    "BarrierLostError",
    "BarrierMismatchError",
    "BarrierTimeoutError",
    "GangstartError",
    "Gpu",
    "GpuFinding",
    "Missing",
    "NodeHealth",
    "Passed",
    "Step",
    "barrier",
    "current",
    "health",
    "heartbeat",
]

#: Where each name comes from. No module of this package may have one of these names:
#: importing it would put the module in the function's place.
_HOMES = {
    "gangstart.beat": ("heartbeat",),
    "gangstart.errors": ("GangstartError",),
    "gangstart.gpuhealth": ("Gpu", "GpuFinding", "NodeHealth", "health"),
    "gangstart.meeting": (
        "BarrierError",
        "BarrierLostError",
        "BarrierMismatchError",
        "BarrierTimeoutError",
        "Missing",
        "Passed",
        "barrier",
    ),
    "gangstart.step": ("Step", "current"),
}


def __getattr__(name: str) -> object:
    """Load what is used for the first time."""
    from importlib import import_module  # noqa: PLC0415 - most imports need nothing

    for home, names in _HOMES.items():
        if name in names:
            found: object = getattr(import_module(home), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'gangstart' has no attribute {name!r}")
