"""Checks of a node before and after a job: each decides from what others have read."""
