"""Running job, savepoints, restores, dispose, retention and compaction at once: nothing that is needed is lost."""

import pytest
from bounded import at_random
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playing import Replay, some_now

from state_engine.log.paths import SAVEPOINTS
from state_engine.testing.interleaving import WRITES, Schedule

ALL = (
    "driver", "driver/publish", "rewind", "rewind/publish", "groups", "fork", "fork/publish", "import", "late-fork",
    "savepoint", "past", "canonical", "dispose", "retention", "cleaner",
)  # fmt: skip
PROCESSES = [name for name in ALL if "/" not in name]


def test_one_after_the_other(replay: Replay) -> None:
    played = replay(PROCESSES, Schedule(rest=ALL))
    for name in ALL:
        assert played.calls(name) or name.endswith("publish"), name


DIES_NOW = ("driver", "groups", "savepoint", "retention", "compact")


@pytest.mark.parametrize("dies", some_now([*(name for name in PROCESSES if name != "cleaner"), "compact"], DIES_NOW))
def test_one_dies_after_each_of_its_writes(replay: Replay, dies: str) -> None:
    names = [dies, "cleaner"]
    calls = replay(names, Schedule(rest=(dies, f"{dies}/publish"))).calls(dies)
    for call in range(1, len(calls) + 1):
        if call == 1 or calls[call - 2].name in WRITES:
            replay(names, Schedule(rest=(dies, f"{dies}/publish"), kills=((dies, call),)))


@pytest.mark.parametrize("seed", some_now(range(20), range(8)))
def test_any_order(replay: Replay, seed: int) -> None:
    replay(PROCESSES, at_random(ALL, seed, kills=seed % 4))


STEPS = st.tuples(st.sampled_from(ALL), st.sampled_from((1, 3, 10, 30)))
DEATHS = st.dictionaries(st.sampled_from(PROCESSES), st.integers(1, 60), max_size=2)


@settings(
    derandomize=True,
    max_examples=max(5, settings.default.max_examples // 20),
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(STEPS, max_size=60), rest=st.permutations(ALL), deaths=DEATHS)
def test_schedules_that_shrink(
    replay: Replay, steps: list[tuple[str, int]], rest: list[str], deaths: dict[str, int]
) -> None:
    replay(PROCESSES, Schedule(tuple(steps), tuple(rest), tuple(deaths.items())))


def test_a_schedule_is_a_line_of_text_and_the_same_line_is_the_same_run(replay: Replay) -> None:
    schedule = at_random(ALL, 7, kills=2)
    assert Schedule.parse(str(schedule)) == schedule
    once, again = (replay(PROCESSES, line) for line in (str(schedule), schedule))
    assert once.trace == again.trace
    assert once.turns == again.turns


def test_a_driver_that_is_stopped_ends_with_a_savepoint_of_its_newest_epoch(replay: Replay) -> None:
    def pins(schedule: str) -> list[str]:
        calls = replay(["driver", "stop"], schedule).calls("driver")
        return [call.path for call in calls if call.name == "put_if_absent" and call.path.startswith(SAVEPOINTS)]

    assert len(pins("stop:1 | driver/*")) == 1
    assert len(pins("driver:40 stop:1 | driver/*")) == 1
    assert pins("| driver/* stop") == []  # it had ended
