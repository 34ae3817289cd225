"""From values to a page: one template, everything that is said escaped in one place.

Whatever a template writes goes through ``say`` and then through Jinja's escaping; only
the style sheet of this package is taken as it is.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gangstart import __version__
from gangstart.page.text import number, plural, shown, utc

if TYPE_CHECKING:
    from jinja2 import Environment

#: Nothing is loaded, nothing runs; the empty icon keeps browsers from asking for one.
POLICY = (
    "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def say(value: object) -> object:
    """Make text safe to look at; None is nothing, and our own markup stays."""
    if value is None:
        return ""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return shown(value)
    return value


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of this package, with escaping on."""
    # Slow to import, and only a page needs it.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=PackageLoader("gangstart.page"),
        autoescape=True,
        finalize=say,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(utc=utc, shown=shown, number=number, plural=plural)
    return made


def page(template: str, values: dict[str, Any]) -> str:
    """Render a template to a whole page."""
    made = environment()
    source = made.loader
    assert source is not None  # noqa: S101 - for the types: it is given above
    style = source.get_source(made, "style.css")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    from markupsafe import Markup  # noqa: PLC0415 - as Jinja's

    return made.get_template(template).render(
        values,
        style=Markup(style),  # noqa: S704 - a file of this package
        policy=POLICY.format(style=digest),
        version=__version__,
    )
