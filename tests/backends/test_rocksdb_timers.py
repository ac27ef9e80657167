"""The copy of timers that a database has: what came and went, in one write or in several."""

from pathlib import Path

import pytest

from state_engine.backends.keys import KeyCodec, Namespaced
from state_engine.backends.rocksdb import LocalDatabase, Tuning
from state_engine.backends.rocksdb.cells import Cells
from state_engine.backends.rocksdb.store import Changes
from state_engine.backends.rocksdb.timers import TimerCopy
from state_engine.serialization.types import parse_columns


def write(database: LocalDatabase, copy: TimerCopy) -> int:
    """Writes what is staged; returns how many cells that were."""
    changes = Changes()
    copy.write(changes)
    database.store.write(changes)
    return len(changes.cells)


@pytest.mark.parametrize("space", [None, "window"])
@pytest.mark.parametrize("together", [True, False])
def test_of_a_timer_that_came_and_went_the_last_counts(tmp_path: Path, together: bool, space: str | None) -> None:
    codec, database = KeyCodec(parse_columns("k bigint"), 4), LocalDatabase(tmp_path / "0-3", Tuning())
    copy = TimerCopy(database, Cells(1, codec))
    every = [key if space is None else Namespaced(key, space) for key in range(40)]
    group = [codec.key_group(key) for key in range(40)]
    gone = [entry for entry, own in zip(every, group, strict=True) if own == 2]
    model = set()
    for entries, time, there in [
        (every, 10, True),
        (every[:5], 10, False),
        (every[:3], 10, True),
        (every[7:8], 20, True),
        ([], 30, True),
        (every[30:], -5, True),
        (every[30:35], -5, False),
    ]:
        copy.stage(entries, [time] * len(entries), there)
        model |= {(entry, time) for entry in entries}
        model -= set() if there else {(entry, time) for entry in entries}
        if not together:
            write(database, copy)
    copy.drop_group(2)
    copy.stage(gone[:1], [40], True)
    model = {one for one in model if one[0] not in gone} | {(gone[0], 40)}
    assert write(database, copy) > 0
    assert write(database, copy) == 0
    found = copy.read()
    assert len(found) == len(model)
    assert set(found) == model
    database.close()
