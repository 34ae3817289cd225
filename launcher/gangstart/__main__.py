"""Lets `python -m gangstart` do what the gangstart command does."""

from __future__ import annotations

import sys

from gangstart.cli import main

if __name__ == "__main__":
    sys.exit(main())
