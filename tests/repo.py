"""What is in this repository: the files that git keeps, or would keep."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def kept() -> list[Path]:
    """Files of the checkout that git does not ignore; skips without a git checkout."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except FileNotFoundError:
        pytest.skip("git is not installed")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"not a git checkout: {error.stderr.strip()}")
    return [p for name in listed.split("\0") if name and (p := ROOT / name).is_file()]


def text(path: Path) -> str:
    """Text of a file; pictures and other bytes come out mangled but searchable."""
    return path.read_text(encoding="utf-8", errors="replace")


def shown(path: Path) -> str:
    """Path as a person would type it in the checkout."""
    return str(path.relative_to(ROOT))
