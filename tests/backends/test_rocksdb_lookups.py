"""How much a look-up reads from the disk."""

import os
import random
from pathlib import Path

import pytest

from state_engine.api.state_backend import PredefinedOptions
from state_engine.backends.rocksdb.options import Tuning
from state_engine.backends.rocksdb.store import Changes, Store

KEYS = 600_000
LOOKUPS = 500


def bytes_read() -> int:
    """Returns how much this process has read, from the disk or from the operating system's cache of it."""
    [line] = [line for line in Path(f"/proc/{os.getpid()}/io").read_text().splitlines() if line.startswith("rchar")]
    return int(line.split()[1])


@pytest.mark.parametrize("options", PredefinedOptions)
def test_a_lookup_reads_blocks_and_not_the_filter_of_the_whole_file(tmp_path: Path, options: PredefinedOptions) -> None:
    """The cache is split into shards, and a block larger than a shard is read again each time."""
    store = Store(tmp_path / "db", Tuning(memory_bytes=8 << 20, predefined=options.name))
    changes = Changes()
    changes.cells = {number.to_bytes(8, "big"): b"value" for number in range(KEYS)}
    store.load(changes)
    wanted = [number.to_bytes(8, "big") for number in random.Random(1).sample(range(KEYS), LOOKUPS)]
    before = bytes_read()
    assert [store.get(key) for key in wanted] == [b"value"] * LOOKUPS
    per_lookup = (bytes_read() - before) / LOOKUPS
    store.close()
    block = 128 << 10 if options is PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM else 4 << 10
    assert per_lookup < 6 * block
