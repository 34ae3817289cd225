"""Options of pytest that all tests know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import slurmroot

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slurm",
        default="",
        metavar="LINE",
        help="run private clusters from the root of this release line (make roots)",
    )


def pytest_configure(config: pytest.Config) -> None:
    slurmroot.CHOSEN.line = config.getoption("--slurm")


def pytest_report_header() -> str:
    chosen = slurmroot.CHOSEN.line
    return f"slurm: {chosen or 'of this machine'} {slurmroot.root()}"
