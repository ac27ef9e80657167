"""Histories of the simulated cluster: those of the corpus first, then new ones, which were never played before.

A history that fails is shrunk and printed as a line: put it into `histories/corpus.txt`. `make campaign` plays more.
"""

import os
from pathlib import Path
from random import SystemRandom

import pytest

from state_engine.testing.history_words import WEIGHTS, Action, parse, random_history, text_of
from state_engine.testing.simulated_history import CheckFailed, Player, find, shrink
from state_engine.testing.simulated_processes import FAULTS, Process, Processes
from state_engine.testing.simulation_campaign import play

pytestmark = pytest.mark.usefixtures("stepped")

CORPUS = [
    line
    for line in (Path(__file__).parent / "histories" / "corpus.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
PARTS = 4
NEW = 240  # in `make test`: about a quarter of a minute of one core
LONG = int(os.environ.get("LAKESTATE_HISTORIES", "20000"))


def seed_of_this_run() -> int:
    return int(os.environ.get("LAKESTATE_SEED", SystemRandom().randrange(2**32)))


def play_new(histories: int) -> None:
    first = seed_of_this_run()
    chunk = play(first, histories)
    failures = [f"seed {one.seed}: {one.message}\n    {one.line}" for one in chunk.finds if one.line]
    assert not failures, (
        f"{len(chunk.finds)} of {histories} histories from seed {first} do not end well; lines for the corpus:\n  "
        + "\n  ".join(failures)
    )


@pytest.mark.parametrize("line", CORPUS)
def test_a_history_of_the_corpus_ends_well(line: str) -> None:
    Player().play(parse(line))


@pytest.mark.parametrize("part", range(PARTS))
def test_new_histories_end_well(part: int) -> None:
    play_new(NEW // PARTS)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_new_histories_end_well(part: int) -> None:
    play_new(LONG // PARTS)


def test_a_history_is_a_line_of_text() -> None:
    for seed in range(50):
        actions = random_history(seed)
        assert parse(text_of(actions)) == actions
        assert random_history(seed) == actions
    with pytest.raises(ValueError, match="is not a word"):
        parse("start step;step")


def test_every_action_and_every_fault_is_drawn() -> None:
    drawn = [action for seed in range(400) for action in random_history(seed)]
    assert {action.verb for action in drawn} == {*WEIGHTS, "job"}
    assert {kind for action in drawn for _, kind in action.faults} == set(FAULTS)


def test_the_same_line_gives_the_same_calls() -> None:
    def calls(seed: int) -> tuple[object, ...]:
        player = Player()
        player.play(random_history(seed))
        cluster = player.cluster
        return cluster.now_ms, cluster.new_id(), tuple(cluster.table.versions), dict(cluster.processes.played)

    for seed in range(6):
        assert calls(seed) == calls(seed)


def test_a_history_that_fails_is_shrunk_to_what_makes_it_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(player: Player, action: Action) -> None:
        if action.calls is not None and player.cluster.foreign:
            raise CheckFailed("disposed late", str(action))

    monkeypatch.setattr(Player, "_dispose", late)
    actions = parse("job.1 start.3 append.3 step.7!lost@3 ckpt.4~5 dispose.9~3!fail@2 retain step resume kill tick.2")
    finding = find(actions)
    assert finding is not None
    assert text_of(shrink(actions, finding.kind)) == "start append dispose~3"


def test_a_process_stops_before_any_call_and_dies_there() -> None:
    processes, done = Processes(), []

    def work() -> None:
        for number in range(4):
            processes.call("get", "x", lambda number=number: done.append(number))

    one, other = Process("one", work), Process("other", work)
    processes.run(one, 2)
    assert (done, one.done, processes.parked) == ([0, 1], False, [one])
    processes.run(other)
    assert (done[2:], other.done) == ([0, 1, 2, 3], True)
    processes.kill(one)
    assert (len(done), one.done, processes.parked) == (6, True, [])


@pytest.mark.parametrize(
    ("kind", "happened"), [("fail", False), ("lost", True), ("late", False), ("torn", False), ("full", False)]
)
def test_a_call_that_goes_wrong_is_answered_with_an_error(kind: str, happened: bool) -> None:
    processes, done = Processes(), []
    process = Process("one", lambda: processes.call("put_if_absent", "x", lambda: done.append(1)), {1: kind})
    processes.run(process)
    assert type(process.error).__name__ == "StorageError"
    assert bool(done) == happened
    processes.deliver()
    assert bool(done) == (happened or kind == "late")
