"""Configurations of docs/agents.md start the server; the skill is one."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from agents.agent import Agent, Site, agent, session
from anyio.from_thread import start_blocking_portal
from docs.commands import blocks, unknown_words
from gangstart.mcp.tools import TOOLS
from mcp import MCPError
from mcp_types import GetPromptResult, TextContent
from repo import ROOT, text

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURATIONS = [
    json.loads(block.body) for block in blocks() if block.is_configuration
]
SKILL = ROOT / "docs" / "agents" / "failed-slurm-job" / "SKILL.md"
GANGSTART = [sys.executable, "-m", "gangstart"]


def started(configuration: dict[str, Any]) -> list[str]:
    """What a client runs: on this machine, or behind ssh."""
    ((_, servers),) = configuration.items()
    argv = [servers["gangstart"]["command"], *servers["gangstart"]["args"]]
    return argv[argv.index("gangstart") :]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_configuration_starts_the_server(
    configuration: dict[str, Any], tmp_path: Path
) -> None:
    words = started(configuration)
    assert unknown_words(" ".join(words)) == []
    site = Site(tmp_path)
    argv = [*GANGSTART, *words[1:]]

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            session(argv, site.env, tmp_path / "stderr")
        ) as made,
    ):
        tools = Agent(made, portal).tools().tools

    assert [one.name for one in tools] == [tool.name for tool in TOOLS]
    assert len(CONFIGURATIONS) == 3


def test_the_guide_and_the_skill_name_every_tool() -> None:
    for page in (ROOT / "docs" / "agents.md", SKILL):
        assert {tool.name for tool in TOOLS} <= set(re.findall(r"`(\w+)`", text(page)))


def test_the_skill_has_the_form_that_agents_read() -> None:
    head = re.match(r"---\nname: (.+)\ndescription: (.+)\n---\n\n# ", text(SKILL))

    assert head is not None
    assert head[1] == SKILL.parent.name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", head[1])
    assert len(head[2]) <= 1024
    assert ": " not in head[2], "a colon would be YAML's"


def test_the_skill_is_offered_as_a_prompt(tmp_path: Path) -> None:
    with agent(Site(tmp_path)) as asked:
        (offered,) = asked.portal.call(asked.session.list_prompts).prompts
        given = {"job": "7877_3"}
        told = asked.portal.call(asked.session.get_prompt, SKILL.parent.name, given)
        with pytest.raises(MCPError, match="is not a job: a number such as"):
            asked.portal.call(asked.session.get_prompt, offered.name, {"job": "x\ny"})
        with pytest.raises(MCPError, match="there is no prompt but failed-slurm-job"):
            asked.portal.call(asked.session.get_prompt, "other", given)

    assert offered.name == SKILL.parent.name
    assert isinstance(told, GetPromptResult)
    (message,) = told.messages
    assert isinstance(message.content, TextContent)
    body = text(SKILL).partition("---\n\n")[2]
    assert message.content.text == f"{body.rstrip()}\n\n## The job\n\n7877_3\n"


def test_quantities_that_the_skill_names_exist() -> None:
    (metrics,) = [tool for tool in TOOLS if tool.name == "query_metrics"]
    known = set(metrics.takes["quantities"]["items"]["enum"])
    (line,) = re.findall(r"^4\. `query_metrics`.*?\n5\.", text(SKILL), re.M | re.S)
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", line)) - {"query_metrics"}
    assert named
    assert named <= known
