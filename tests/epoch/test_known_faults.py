"""Each known fault that the simulator does not play: these tests pass when the fault is mended."""

from contextlib import suppress

import pytest
from known_faults import shows

from state_engine.checkpoint.table import CheckpointRow, CheckpointTable, decode_rows
from state_engine.log.paths import CHECKPOINTS
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.tables import open_tables
from state_engine.testing.history_words import parse
from state_engine.testing.simulated_history import Found, Player, find

pytestmark = pytest.mark.usefixtures("stepped")


LINES = {
    "rewind-race": "start step step~t1 restore.1~t10 resume resume",
    "sink-ahead": "start idle idle idle idle step step step wipe start step",
    "lease-outlived": "start step ckpt step ckpt.2 restore.1~39 tick.3 retain retain resume",
    "sink-changed": "start step alter step",
}
SWITCHED_OFF = {**LINES, "sink-ahead": "start idle idle step step start step", "sink-changed": "start step step"}


def play(name: str) -> None:
    Player(frozenset({name})).play(parse(LINES[name]))


@shows("rewind-race", Found)
def test_a_restore_races_with_the_last_commit_of_a_living_driver() -> None:
    play("rewind-race")


@shows("sink-ahead", Found)
def test_a_sink_is_ahead_of_a_root_that_was_removed() -> None:
    play("sink-ahead")


@shows("lease-outlived", Found)
def test_a_restore_takes_longer_than_its_lease() -> None:
    play("lease-outlived")


@shows("sink-changed", Found)
def test_the_owner_changes_a_table_while_the_stream_runs() -> None:
    play("sink-changed")


@pytest.mark.parametrize("name", LINES)
def test_what_is_switched_off_shows_nothing(name: str) -> None:
    assert find(parse(SWITCHED_OFF[name])) is None


@shows("flipped-checkpoint-row")
def test_a_flipped_bit_in_a_row_of_checkpoints_is_an_error() -> None:
    storage = MemoryStorage()
    row = CheckpointRow(
        id="1", kind="checkpoint", checkpoint_id=1, status="completed", generation=1, epoch=7, manifest="hash",
        triggered_at=1, completed_at=2, duration_ms=1,
    )  # fmt: skip
    CheckpointTable(storage, open_tables(storage)).append([row], app_id="test", version=1)
    [path] = [info.path for info in storage.list(CHECKPOINTS) if info.path.endswith(".parquet")]
    data, other = storage.get(path), []
    for place in range(0, len(data) * 8, 41):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        with suppress(Exception):
            if decode_rows(bytes(flipped)) != [row]:
                other.append(place)
    assert other == [], f"{len(other)} flips give other rows"
