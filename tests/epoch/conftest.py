"""Fixtures of the tests that play histories of the simulated cluster."""

from collections.abc import Iterator

import pytest

from state_engine.testing.simulated_processes import stepping


@pytest.fixture
def stepped() -> Iterator[None]:
    """Each call to a storage in memory is a place at which a process may stop."""
    with stepping():
        yield
