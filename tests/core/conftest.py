"""What all tests of the core share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No time limit per example: the machine that runs this may be busy with other work.
settings.register_profile(
    "core",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("core")
