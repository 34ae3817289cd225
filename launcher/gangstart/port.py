"""Choose MASTER_PORT on the node that owns rank 0: try, do not compute."""

from __future__ import annotations

from gangstart import core
from gangstart.errors import GangstartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def choose_port(
    step: tuple[int, int],
    node: str,
    is_free: Callable[[int], bool],
    *,
    wanted: str | None = None,
    rules: core.PortRules | None = None,
) -> int:
    """Choose a port for ``step`` (job id, step id) that ``is_free`` on ``node``.

    ``wanted`` is the user's own MASTER_PORT, checked but never replaced; empty counts
    as not set. ``is_free`` should reserve what it reports as free (bind it), else two
    steps can be given the same one. Raises ``GangstartError`` when the wanted port
    cannot be used or none is free.
    """
    if wanted:
        port = core.read_port(wanted)
        if is_free(port):
            return port
        raise GangstartError(
            f"MASTER_PORT={port} is already in use on node {node}; end what holds it, "
            "or unset MASTER_PORT to have a free one chosen",
            exit_code=core.EXIT_CONFIG,
        )
    try:
        candidates = core.port_candidates(rules or core.PortRules(), *step)
        return next(port for port in candidates if is_free(port))
    except GangstartError as err:
        raise GangstartError(
            f"node {node}: {err.message}", exit_code=err.exit_code
        ) from None
