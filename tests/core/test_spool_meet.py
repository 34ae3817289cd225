"""The key that the tasks of a step share: private, whole, and gone with the step."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

from core.c import lib, new, text
from core.test_spool import (
    GID,
    JOB,
    STEP,
    UID,
    base,
    publish,
    root_only,
    tree,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["base"]


def meet(step: Path, uid: int = UID) -> tuple[int, str]:
    """Leave a key in a step's folder; code and sentence."""
    made, error = new("gs_meet"), new("gs_error")
    made.key[0:32] = list(range(32))
    made.port_lo, made.port_hi = 30000, 31000
    rc = lib.gs_spool_meet(os.fsencode(step), made, uid, GID, error)
    return rc, text(error.text)


def test_the_key_is_for_its_user_alone_and_replaced_by_the_next(base: Path) -> None:
    step = base / f"{JOB}.{STEP}"
    (step / "meet.key").symlink_to(base / "elsewhere")
    assert meet(step) == (0, "")
    assert meet(step) == (0, "")

    info = (step / "meet.key").lstat()
    assert stat.S_IMODE(info.st_mode) == 0o400
    assert stat.S_ISREG(info.st_mode)
    assert not (base / "elsewhere").exists()
    made = json.loads((step / "meet.key").read_text())
    assert made == {
        "version": 1,
        "key": bytes(range(32)).hex(),
        "ports": [30000, 31000],
    }


@root_only
def test_the_key_belongs_to_the_steps_user(base: Path) -> None:
    step = base / f"{JOB}.{STEP}"
    assert meet(step, uid=1234) == (0, "")
    assert (step / "meet.key").stat().st_uid == 1234


def test_the_key_never_reaches_the_archive(base: Path, tmp_path: Path) -> None:
    assert meet(base / f"{JOB}.{STEP}") == (0, "")
    archive = tmp_path / "archive"
    archive.mkdir()
    assert publish(base, archive) == (1, "")
    assert not [name for name in tree(archive) if "key" in name]
    assert not (base / f"{JOB}.{STEP}").exists()
