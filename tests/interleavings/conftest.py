"""Modules of this folder are imported by their plain names; each of their tests begins with the same stage."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from everything import Everything
from playing import Replay


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    stage = Everything.begin("memory://interleavings/template")
    yield Replay(stage)
    stage.forget()
