"""One browser for all tests of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from page import browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver


@pytest.fixture(scope="session")
def chrome() -> Iterator[webdriver.Chrome]:
    """Skip where there is no browser, and say why."""
    reason = browser.why_not()
    if reason is not None:
        pytest.skip(reason)
    made = browser.start()
    yield made
    made.quit()
