"""``gangstart mcp``: the same answers for AI agents, over stdio."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING

from gangstart import report_find
from gangstart.errors import GangstartError
from gangstart.triage.source import promoptions
from gangstart.usage import Parser

if TYPE_CHECKING:
    from argparse import Namespace

    from gangstart.mcp.call import Site

PACKAGE = "mcp"


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart mcp",
        description="Serve the Model Context Protocol on stdin and stdout: an AI agent "
        "starts this and asks why a job ended, how its start went, how its nodes are, "
        "what Prometheus says, and for lines of the job's logs. It only reads, as the "
        "user who runs it, and ends when stdin does. Needs gangstart[mcp].",
        epilog="How to register it: docs/agents.md.",
    )
    report_find.add_options(made)
    promoptions.add(made)
    return made


def main(argv: list[str]) -> int:
    """Serve until stdin ends."""
    options = parser().parse_args(argv)
    try:
        from gangstart.mcp import server  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise GangstartError(lacking(error)) from error
    site = site_of(options)
    if sys.stdin.isatty():
        sys.stderr.write(
            "gangstart: mcp: an agent starts this and speaks its protocol (see "
            "docs/agents.md); Ctrl-C ends it\n"
        )
    return server.run(site)


def lacking(error: ImportError) -> str:
    """Say what to install."""
    try:
        has = f"{sys.executable} has {PACKAGE} {metadata.version(PACKAGE)}"
    except metadata.PackageNotFoundError:
        has = f"{sys.executable} has none"
    return (
        "mcp: this needs the MCP Python SDK (package mcp, 2.3 or newer of version 2), "
        f"and {has} ({error.name or error} cannot be imported): "
        "pip install 'gangstart[mcp]'"
    )


def site_of(options: Namespace) -> Site:
    """What the options set for all calls.

    Raises:
        GangstartError: a folder or address that cannot be meant.

    """
    from gangstart.mcp.call import Site  # noqa: PLC0415 - not for --help

    places = report_find.places(options.archive, options.spool, options.cluster)
    return Site(places, promoptions.server(options), options.spool or "")
