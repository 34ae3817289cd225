"""Plugs one node's network cable in or out: a child process's work, on the head."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.cluster import enter, space, state
from gangstart.cluster.config import HEAD
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULE = "gangstart.cluster.cable"


def main(arguments: Sequence[str]) -> int:
    """DIR NODE up|down."""
    directory, node, way = arguments
    os.chdir("/")
    try:
        enter.move(state.require(Path(directory)), HEAD)
        space.set_cable(node, up=way == "up")
    except GangstartError as error:
        sys.stderr.write(error.message)
        return 1
    except OSError as error:
        sys.stderr.write(f"cluster: {error.filename}: {error.strerror}")
        return 1
    return 0
