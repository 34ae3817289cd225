"""The site's defaults in plugstack.conf, under the environment's and the flag's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gangstart.errors import GangstartError
from gangstart.run.command import spec_of

if TYPE_CHECKING:
    from pathlib import Path


def site(folder: Path, arguments: str) -> dict[str, str]:
    """An environment whose Slurm has this line in plugstack.conf."""
    line = f"optional /usr/lib/spank_gangstart.so {arguments}\n"
    (folder / "plugstack.conf").write_text(line)
    return {"SLURM_CONF": str(folder / "slurm.conf")}


def test_flag_wins_over_environment_over_site(tmp_path: Path) -> None:
    env = site(tmp_path, "timeout=7 slack=3 ports=20000-20100 conf=none")
    env["SLURM_GANG_START"] = "timeout=8"

    assert spec_of(None, env).timeout_s == 8
    assert spec_of("timeout=9", env).timeout_s == 9
    assert spec_of(None, env).slack_s == 3
    assert (spec_of(None, env).ports, spec_of(None, env).conf) == ((20000, 20100), "")


def test_a_mistake_of_the_sites_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(GangstartError, match=r"plugstack\.conf: timeout=never"):
        spec_of("60", site(tmp_path, "timeout=never"))


def test_without_a_plugstack_nothing_changes(tmp_path: Path) -> None:
    env = {"SLURM_CONF": str(tmp_path / "slurm.conf")}

    assert spec_of(None, env).timeout_s == 120
    assert spec_of(None, env).conf is None
