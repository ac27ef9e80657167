"""Fixtures of tests that play histories of the simulated cluster; modules of this folder are importable by name."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from state_engine.testing.simulated_processes import stepping

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def stepped() -> Iterator[None]:
    """Each call to a storage in memory is a place at which a process may stop."""
    with stepping():
        yield
