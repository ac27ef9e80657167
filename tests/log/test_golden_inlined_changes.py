"""The golden manifest with inlined changes is read like one with change files."""

from pathlib import Path

import pyarrow as pa

from state_engine.log.manifest import decode_manifest
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.state_reader import read_change_rows

GOLDEN = Path(__file__).parent / "golden" / "inlined.json"


def test_its_rows_are_read_without_any_file() -> None:
    manifest = decode_manifest(GOLDEN.read_bytes()).manifest
    counts, routes = manifest.schemas
    storage = MemoryStorage()

    rows = pa.concat_tables(read_change_rows(storage, manifest, counts, 0, 127)).to_pylist()
    assert [(row["key_group"], row["carrier"], row["value"], row["op"], row["seq"]) for row in rows] == [
        (64, "UA", 3, 1, 0),
        (70, None, None, 1, 3),
        (99, "DL", None, 3, 1),
    ]
    assert {row["position"] for row in rows} == {42}
    [removed, put] = pa.concat_tables(read_change_rows(storage, manifest, routes, 64, 64)).to_pylist()
    assert (removed["op"], removed["user_key"]) == (4, None)
    assert (put["op"], put["user_key"], put["value"]) == (1, {"from": "EWR", "to": "IAH"}, 1.5)
    some = pa.concat_tables(read_change_rows(storage, manifest, counts, 65, 127))
    assert some.column("key_group").to_pylist() == [70, 99]
