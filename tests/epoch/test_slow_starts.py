"""A start pauses between two looks, while the job goes on and retention frees what the first look saw."""

import pytest

from state_engine.testing.history_words import parse
from state_engine.testing.simulated_history import find

pytestmark = pytest.mark.usefixtures("stepped")


@pytest.mark.parametrize("calls", range(6))
def test_a_start_that_saw_no_job_begins_none_where_one_has_begun(calls: int) -> None:
    assert find(parse(f"job.8 start~{calls} start compact")) is None


@pytest.mark.parametrize("calls", range(6))
def test_a_start_that_saw_epochs_which_are_freed_finds_the_newer_ones(calls: int) -> None:
    assert find(parse(f"job.8 start compact start~{calls}")) is None
