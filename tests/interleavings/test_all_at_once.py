"""Running job, savepoints, restores, dispose, retention and compaction at once: nothing that is needed is lost."""

from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from bounded import at_random
from everything import Everything, rows_decoded_once
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state_engine.testing.interleaving import WRITES, Interleaving, Schedule

ALL = (
    "driver", "driver/publish", "rewind", "rewind/publish", "groups", "fork", "fork/publish", "import", "late-fork",
    "savepoint", "past", "canonical", "dispose", "retention", "cleaner",
)  # fmt: skip
PROCESSES = [name for name in ALL if "/" not in name]
NUMBERS = count(1)


@pytest.fixture(scope="module")
def template() -> Iterator[Everything]:
    stage = Everything.begin("memory://interleavings/template")
    with rows_decoded_once():
        yield stage
    stage.forget()


def replay(template: Everything, names: Sequence[str], schedule: Schedule | str) -> Interleaving:
    """Runs one schedule; when it fails, the note says how to run it again."""
    wanted = Schedule.parse(schedule) if isinstance(schedule, str) else schedule
    stage = template.copy(f"memory://interleavings/{next(NUMBERS)}")
    try:
        played = stage.play(names, wanted)
        stage.verify()
    except BaseException as error:
        error.add_note(f'replay(template, {list(names)}, "{wanted}")')
        raise
    finally:
        stage.forget()
    return played


def test_one_after_the_other(template: Everything) -> None:
    played = replay(template, PROCESSES, Schedule(rest=ALL))
    for name in ALL:
        assert played.calls(name) or name.endswith("publish"), name


@pytest.mark.parametrize("dies", [name for name in PROCESSES if name != "cleaner"])
def test_one_dies_behind_each_of_its_writes(template: Everything, dies: str) -> None:
    names = [dies, "cleaner"]
    calls = replay(template, names, Schedule(rest=(dies, f"{dies}/publish"))).calls(dies)
    for call in range(1, len(calls) + 1):
        if call == 1 or calls[call - 2].name in WRITES:
            replay(template, names, Schedule(rest=(dies, f"{dies}/publish"), kills=((dies, call),)))


@pytest.mark.parametrize("seed", range(20))
def test_any_order(template: Everything, seed: int) -> None:
    replay(template, PROCESSES, at_random(ALL, seed, kills=seed % 4))


STEPS = st.tuples(st.sampled_from(ALL), st.sampled_from((1, 3, 10, 30)))
DEATHS = st.dictionaries(st.sampled_from(PROCESSES), st.integers(1, 60), max_size=2)


@settings(
    derandomize=True,
    max_examples=max(5, settings.default.max_examples // 20),
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(STEPS, max_size=60), rest=st.permutations(ALL), deaths=DEATHS)
def test_schedules_that_shrink(
    template: Everything, steps: list[tuple[str, int]], rest: list[str], deaths: dict[str, int]
) -> None:
    replay(template, PROCESSES, Schedule(tuple(steps), tuple(rest), tuple(deaths.items())))


def test_a_schedule_is_a_line_of_text_and_the_same_line_is_the_same_run(template: Everything) -> None:
    schedule = at_random(ALL, 7, kills=2)
    assert Schedule.parse(str(schedule)) == schedule
    once, again = (replay(template, PROCESSES, line) for line in (str(schedule), schedule))
    assert [call[:2] for call in once.trace] == [call[:2] for call in again.trace]
