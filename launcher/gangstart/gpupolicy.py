"""Verdicts on GPUs, and what the site wants of each check: policy.h."""

from __future__ import annotations

from gangstart._core import ffi, lib
from gangstart.core import c_text, check, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gangstart._core import CData

POLICY_FILE = "/etc/gangstart/gangstart.conf"
VERDICTS = {v: text(lib.gs_verdict_name(v)) for v in range(lib.GS_VERDICTS)}


class Policy:
    """What the site wants of each check."""

    def __init__(self) -> None:
        """Start with the defaults."""
        self._c = ffi.new("struct gs_policy *")
        lib.gs_policy_init(self._c)

    @property
    def c(self) -> CData:
        """The ``struct gs_policy *``."""
        return self._c

    @classmethod
    def load(cls, path: str = POLICY_FILE, *, optional: bool = True) -> Policy:
        """Read a file; one that is not there means the defaults, if optional."""
        policy = cls()
        error = ffi.new("struct gs_error *")
        check(lib.gs_policy_load(policy.c, c_text(path), optional, error), error)
        return policy

    @classmethod
    def parse(cls, content: str, name: str = "gangstart.conf") -> Policy:
        """Take the settings of a text."""
        policy = cls()
        error = ffi.new("struct gs_error *")
        raw, shown = c_text(content), c_text(name)
        check(lib.gs_policy_parse(policy.c, raw, shown, error), error)
        return policy
