"""Each fault that is known and not mended: a strict xfail that shows it. Who mends one removes mark and entry."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from state_engine.checkpoint.table import CheckpointRow, CheckpointTable, decode_rows
from state_engine.log.paths import CHECKPOINTS
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.tables import open_tables
from state_engine.testing.known_faults import KNOWN_FAULTS
from state_engine.testing.simulated_history import Found, Player, find, parse
from state_engine.testing.simulated_processes import stepping

LINES = {
    "rewind-race": "start step step~t1 restore.1~t10 resume resume",
    "sink-ahead": "start idle idle idle idle step step step wipe start step",
    "lease-outlived": "start step ckpt step ckpt.2 restore.1~31 tick.3 retain retain resume",
    "sink-changed": "start step alter step",
}
SWITCHED_OFF = {**LINES, "sink-ahead": "start idle idle step step start step", "sink-changed": "start step step"}


@pytest.fixture(autouse=True)
def _stepping() -> Iterator[None]:
    with stepping():
        yield


def shows(name: str, raises: type[Exception] = Found) -> pytest.MarkDecorator:
    [fault] = [fault for fault in KNOWN_FAULTS if fault.name == name]
    return pytest.mark.xfail(reason=fault.fault, strict=True, raises=raises)


@pytest.mark.parametrize("name", [pytest.param(name, marks=shows(name)) for name in LINES])
def test_a_history_with_a_known_fault_ends_well(name: str) -> None:
    Player(frozenset({name})).play(parse(LINES[name]))


@pytest.mark.parametrize("name", LINES)
def test_what_is_switched_off_shows_nothing(name: str) -> None:
    assert find(parse(SWITCHED_OFF[name])) is None


@shows("flipped-checkpoint-row", AssertionError)
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


def test_every_known_fault_is_shown_by_a_test() -> None:
    assert {fault.name for fault in KNOWN_FAULTS} == {*LINES, "flipped-checkpoint-row"}
