"""The one exception that carries a sentence for the user."""

from __future__ import annotations


class GangstartError(Exception):
    """A failure the user can act on: one sentence and the exit code it ends in."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        """Keep the sentence (what, where, what is allowed, what to do) and the code."""
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
