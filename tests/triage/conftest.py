"""All tests of triage run in UTC, whatever the machine's zone is."""

from __future__ import annotations

import os
import time

os.environ["TZ"] = "UTC0"
time.tzset()
