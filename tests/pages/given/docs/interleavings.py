"""The function that plays a schedule, as tests of `tests/interleavings` get it."""

import sys
from pathlib import Path

INTERLEAVINGS = Path(__file__).parents[3] / "interleavings"


def given(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(INTERLEAVINGS), *sys.path])
    from everything import Everything
    from playing import Replay

    stage = Everything.begin("memory://interleavings/page")
    yield {"replay": Replay(stage)}
    stage.forget()
