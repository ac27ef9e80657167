"""Two processes stop, each before any of its calls, and the one that stopped first goes on first.

`LAKESTATE_INTERLEAVINGS=all` runs all of these schedules, not a sample of them.
"""

from functools import partial

import pytest
from bounded import Pair, preempted_twice
from playing import Replay, sample, some_now

PROCESSES = (
    "driver", "rewind", "groups", "compact", "fork", "import", "late-fork", "savepoint", "past", "canonical",
    "dispose", "retention", "cleaner",
)  # fmt: skip
TAKEN = 3


@pytest.mark.slow
@pytest.mark.parametrize("outer", some_now(PROCESSES, ("retention",)))
def test_each_pair_stops(replay: Replay, outer: str) -> None:
    for seed, inner in enumerate(PROCESSES):
        if inner != outer:
            pair = Pair(outer, inner)
            ran = preempted_twice(partial(replay, pair.names), pair, size=sample(TAKEN), seed=seed)
            assert ran.schedules > 1, ran
            print(f"{outer} and {inner}: {ran}")


# Two are stopped while others run, and the second one goes on first. Each waits for, or removes, what the other needs.
WITHIN = [
    Pair("past", "retention", ("cleaner", "dispose"), back=True),
    Pair("retention", "past", ("cleaner",), back=True),
    Pair("canonical", "retention", ("cleaner",), back=True),
    Pair("late-fork", "retention", ("cleaner",), back=True),
    Pair("groups", "retention", ("cleaner",), back=True),
    Pair("driver", "rewind", ("retention",), back=True),
    Pair("driver", "groups", ("rewind", "retention"), back=True),
    Pair("groups", "rewind", ("retention",), back=True),
    Pair("retention", "driver", ("cleaner",), back=True),
    Pair("retention", "cleaner", ("past", "late-fork"), back=True),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pair", some_now(WITHIN, WITHIN[:2]), ids=[f"{pair.outer} and {pair.inner}" for pair in WITHIN]
)
def test_two_are_stopped_while_others_run(replay: Replay, pair: Pair) -> None:
    ran = preempted_twice(partial(replay, pair.names), pair, size=sample(4 * TAKEN))
    assert ran.schedules > 4 * TAKEN, ran
    print(f"{pair.outer} and {pair.inner} while {', '.join(pair.meanwhile)}: {ran}")
