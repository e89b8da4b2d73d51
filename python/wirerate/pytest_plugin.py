"""Fixtures of pytest: ``wirerate`` and ``wirerate_lab``."""
from __future__ import annotations

from typing import Any, Iterator

import pytest

import wirerate as package


@pytest.fixture(scope="session")
def wirerate() -> Any:
    """The package. A machine without the program fails the tests that need it."""
    package.program()
    return package


@pytest.fixture
def wirerate_lab(wirerate: Any) -> Iterator[package.Lab]:
    """Namespaces and links for one test, removed after it."""
    with package.Lab() as lab:
        yield lab
