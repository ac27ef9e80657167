"""State several times as large as the memory that RocksDB and the worker may use."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

LARGE = """
    import random
    import sys
    from pathlib import Path
    import pandas  # pyarrow loads it with the first array; no part of what grows
    from state_engine.api import Types, ValueStateDescriptor
    from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
    from state_engine.testing.state_harness import StateHarness

    EPOCHS, KEYS, SIZE = 40, 5_000, 1_500
    WHOLE = EPOCHS * KEYS

    def content(key):
        return random.Random(key).randbytes(SIZE)

    def peak_mib():
        [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) >> 10

    database = LocalDatabase(Path(sys.argv[1]), Tuning(memory_bytes=16 << 20))
    harness = StateHarness(lambda *args: RocksDBKeyedStateBackend(*args, database), "k bigint")
    backend, blob = harness.backend, ValueStateDescriptor("blob", Types.PRIMITIVE_ARRAY(Types.BYTE()))
    state = harness.state(blob)
    before = peak_mib()
    for epoch in range(EPOCHS):
        keys = range(epoch * KEYS, (epoch + 1) * KEYS)
        backend.prefetch(list(keys))
        for key in keys:
            harness.at(key)
            assert state.value() is None
            state.update(content(key))
        backend.freeze(0)
        backend.settle()
        backend.commit(str(epoch))
    wrong = 0
    for start in range(0, WHOLE, KEYS):
        keys = range(start, start + KEYS, 7)
        backend.prefetch(list(keys))
        for key in keys:
            harness.at(key)
            wrong += state.value() != content(key)
    [statistics] = backend.statistics()
    print(statistics.rows, wrong, peak_mib() - before, WHOLE * SIZE >> 20)
    database.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_state_larger_than_memory_stays_on_disk_and_is_right(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LARGE), str(tmp_path)], capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    rows, wrong, grown, whole = map(int, run.stdout.split())
    assert (rows, wrong) == (200_000, 0)
    assert whole > 280
    assert grown < whole / 2, f"{grown} MiB of memory for {whole} MiB of state"
