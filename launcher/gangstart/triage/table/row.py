"""One row of the table of lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Row:
    """Lines of one kind.

    ``literals``: any of them makes a line worth the pattern. ``pattern`` is searched
    in the line after its prefixes (rank, node, time) were taken off; its named groups
    become the event's fields, of which ``rank``, ``ranks`` and ``node`` say whom the
    line is about. ``code``: the cause that the line alone stands for, "" when a rule
    has to weigh it.
    """

    kind: str
    literals: tuple[str, ...]
    pattern: str
    example: str
    code: str = ""

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern)
