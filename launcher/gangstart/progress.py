"""Progress of a command that waits: one line on a terminal, nothing in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

CLEAR_LINE = "\r\x1b[K"


class Progress:
    """One line that is overwritten, on a terminal only."""

    def __init__(self, stream: TextIO, name: str) -> None:
        """Remember where to write, and of what."""
        self._stream = stream
        self._name = name
        self._shown = ""

    def __enter__(self) -> Progress:
        """Return itself."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Take the line off the screen."""
        if self._shown:
            self._stream.write(CLEAR_LINE)
            self._stream.flush()

    def show(self, text: str) -> None:
        """Replace the line."""
        if text != self._shown and self._stream.isatty():
            self._stream.write(f"{CLEAR_LINE}{self._name}: {text}")
            self._stream.flush()
            self._shown = text
