"""One process runs before each call of all others, which run together; and all others run before each of its own.

`LAKESTATE_INTERLEAVINGS=all` runs all of these schedules, not a sample of them.
"""

from functools import partial

import pytest
from bounded import at_random, one_among_all, preempted_once
from playing import Replay, sample, some_now

from state_engine.testing.interleaving import owner

ALL = (
    "driver", "driver/publish", "rewind", "rewind/publish", "groups", "compact", "fork", "fork/publish", "import",
    "import/publish", "late-fork", "savepoint", "past", "canonical", "dispose", "retention", "cleaner",
)  # fmt: skip
PROCESSES = tuple(name for name in ALL if "/" not in name)
# The number of orders in which others run together; each order has up to 120 long and short runs.
MIXES = 2
TAKEN = 3


@pytest.mark.slow
@pytest.mark.parametrize("one", some_now([*PROCESSES, "stop"], ("retention", "groups")))
def test_one_runs_between_any_two_calls_of_all_others(replay: Replay, one: str) -> None:
    size = sample(TAKEN)
    others, names = [name for name in PROCESSES if name != one], list(dict.fromkeys((*PROCESSES, one)))
    for seed in range(MIXES):
        mix = at_random([name for name in ALL if owner(name) != one], seed).segments
        ran = one_among_all(partial(replay, names), one, others, mix, size=size, seed=seed)
        assert ran.places > 500, ran
        assert ran.schedules > (2 if size is not None else 20), ran
        print(f"{one} among all, order {seed}: {ran}")


@pytest.mark.slow
@pytest.mark.parametrize("one", some_now(PROCESSES, ("driver", "retention")))
def test_all_others_run_between_two_calls_of_one(replay: Replay, one: str) -> None:
    size = sample(TAKEN)
    others = [name for name in ALL if name != one]
    ran = preempted_once(partial(replay, PROCESSES), one, others, size=size)
    assert ran.places > 5, ran
    assert ran.schedules > (2 if size is not None else 5), ran
    print(f"all others within {one}: {ran}")
