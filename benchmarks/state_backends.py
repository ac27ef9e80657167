"""Workload `state_backends`: heap against RocksDB, by shape of state and number of keys."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.model import STATE_BACKENDS, STORES, Case
from benchmarks.rounds import Report, run_rounds
from benchmarks.runner import result_of
from benchmarks.state_backend_engine import truth

EPOCHS = 10
TOUCHED = 20_000
"""Number of keys that an epoch touches, once each; with fewer keys fewer, and then also with the most keys."""
SHAPES = ("value", "ttl", "map", "list", "timers")
BACKENDS = ("heap", "rocksdb")


def measure(
    folder: Path,
    tell: Callable[[str], None],
    keys: Sequence[int],
    shapes: Sequence[str] = SHAPES,
    rounds: int = 1,
    backends: Sequence[str] = BACKENDS,
) -> Report:
    """Runs each shape at each number of keys, backend after backend, and returns one row per case.

    The plain dict runs with `value`, for any choice of backends.
    """
    return run_rounds(
        rounds,
        lambda round_number: cases(folder / f"round-{round_number}", keys, shapes, backends),
        lambda run: result_of(run, truth(run.case)),
        tell,
        lambda case: f"{case.engine}, {case.keys:,} keys, {case.epoch_records:,} of them in an epoch",
    )


def cases(folder: Path, keys: Sequence[int], shapes: Sequence[str], backends: Sequence[str] = BACKENDS) -> list[Case]:
    """Returns the cases of one round."""
    return [
        Case(
            workload=STATE_BACKENDS,
            engine=engine,
            key_type="int",
            keys=count,
            epochs=EPOCHS,
            epoch_records=touched,
            files_per_epoch=0,
            parallelism=1,
            inputs="",
            work=str(folder / f"{engine.replace('/', '-')}-{count}-{touched}"),
        )
        for count, touched in loads(keys)
        for engine, store in STORES.items()
        if engine.partition("/")[0] in shapes and store.backend in ("dict", *backends)
    ]


def loads(keys: Sequence[int]) -> list[tuple[int, int]]:
    """Returns pairs: a number of keys, and the number of them that an epoch touches.

    Compared cases touch the same number of keys, each once: a second touch in an epoch would find its key in memory, at
    any size. So sizes below `TOUCHED`, and again the largest, run with epochs of as many keys as the smallest has.
    """
    large, fewest = [count for count in keys if count >= TOUCHED], min(keys)
    if fewest >= TOUCHED:
        return [(count, TOUCHED) for count in large]
    few = [count for count in keys if count < TOUCHED or count == max(keys)]
    return [*((count, fewest) for count in few), *((count, TOUCHED) for count in large)]
