"""A restore pauses at any place for longer than its lease while retention runs: it is refused, or complete."""

import pytest

from state_engine.testing.history_words import parse
from state_engine.testing.simulated_history import find

pytestmark = pytest.mark.usefixtures("stepped")

LINES = (
    "start step ckpt step ckpt.2 restore.1~{} tick.3 retain retain resume",
    "start step ckpt step savepoint ckpt.2 step ckpt.2 restore.3~{} tick.3 retain retain resume",
)


@pytest.mark.parametrize("line", LINES)
def test_no_restore_is_sealed_over_files_that_retention_has_freed(line: str) -> None:
    assert [(call, found) for call in range(10, 60) if (found := find(parse(line.format(call)))) is not None] == []
