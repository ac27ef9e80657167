"""Lets the tests of this folder import the modules beside them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def package() -> Iterator[Path]:
    """A copy of the package and its tests, which each mutant copies once more."""
    from private_copy import copy_checkout

    with TemporaryDirectory(prefix="lakestate-mutants-") as folder:
        yield copy_checkout(Path(folder) / "package")
