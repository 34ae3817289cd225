"""The skill of docs/agents/, which the server also offers as a prompt."""

from __future__ import annotations

import re
from importlib import resources
from typing import NamedTuple

HEAD = re.compile(r"---\nname: (.+)\ndescription: (.+)\n---\n+")


class Skill(NamedTuple):
    """What an agent is told about how to go about something."""

    name: str
    description: str
    text: str

    def about(self, job: str) -> str:
        """The text, with the job that it is about."""
        return f"{self.text.rstrip()}\n\n## The job\n\n{job}\n"


def skill() -> Skill:
    """The only one there is."""
    file = resources.files("gangstart.mcp") / "SKILL.md"
    stored = file.read_text(encoding="utf-8")
    head = HEAD.match(stored)
    if head is None:
        raise ValueError("SKILL.md does not begin with a name and a description")
    return Skill(head[1], head[2], stored[head.end() :])
