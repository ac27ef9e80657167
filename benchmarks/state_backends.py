"""Workload `state_backends`: heap against RocksDB, by shape of state and number of keys; each epoch touches as many."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.model import STATE_BACKENDS, STORES, Case
from benchmarks.rounds import Report, run_rounds
from benchmarks.runner import result_of
from benchmarks.state_backend_engine import truth

EPOCHS = 10
TOUCHED = 20_000
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

    The bare dict goes with `value`, whichever backends are asked for.
    """
    return run_rounds(
        rounds,
        lambda round_number: cases(folder / f"round-{round_number}", keys, shapes, backends),
        lambda run: result_of(run, truth(run.case)),
        tell,
        lambda case: f"{case.engine}, {case.keys:,} keys",
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
            epoch_records=TOUCHED,
            files_per_epoch=0,
            parallelism=1,
            inputs="",
            work=str(folder / f"{engine.replace('/', '-')}-{count}"),
        )
        for count in keys
        for engine, store in STORES.items()
        if engine.partition("/")[0] in shapes and store.backend in ("dict", *backends)
    ]
