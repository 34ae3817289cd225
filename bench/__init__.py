"""Measures gangstart against its goals: docs/performance.md says how and why."""
