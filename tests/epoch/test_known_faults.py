"""Each known fault that the simulator does not play: these tests pass when the fault is mended."""

import pytest
from known_faults import shows

from state_engine.testing.history_words import parse
from state_engine.testing.simulated_history import Found, Player, find

pytestmark = pytest.mark.usefixtures("stepped")


LINES = {
    "lease-outlived": "start step ckpt step ckpt.2 restore.1~39 tick.3 retain retain resume",
}


def play(name: str) -> None:
    Player(frozenset({name})).play(parse(LINES[name]))


@shows("lease-outlived", Found)
def test_a_restore_takes_longer_than_its_lease() -> None:
    play("lease-outlived")


@pytest.mark.parametrize("name", LINES)
def test_what_is_switched_off_shows_nothing(name: str) -> None:
    assert find(parse(LINES[name])) is None
