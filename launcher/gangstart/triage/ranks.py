"""Lists of ranks such as 0-7,9, as srun and start reports write them."""

from __future__ import annotations

import re

RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")
#: A world: far above the largest that is known (big_sys.html of Slurm: 2 million tasks
#: Tasks of one step: several times those of the largest clusters of GPUs.
WORLD_MOST = 1_000_000
#: One line of srun is about tasks of one node, which are no more than its CPUs.
LINE_MOST = 16_384


def expand(text: str, most: int = WORLD_MOST) -> tuple[int, ...]:
    """Ranks of ``0-7,9``; () for what is no such list, or is of more than ``most``.

    The text may be anybody's: a few bytes of it can stand for millions of numbers.
    """
    made: list[int] = []
    for part in text.split(",") if text else ():
        match = RANGE.fullmatch(part.strip())
        if not match:
            return ()
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or len(made) + last - first >= most:
            return ()
        made.extend(range(first, last + 1))
    return tuple(made)
