"""Workload `state_backends`: heap against RocksDB, by shape of state and number of keys; each epoch touches as many."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.model import STATE_BACKENDS, STORES, Case
from benchmarks.rounds import Report, run_rounds
from benchmarks.runner import result_of
from benchmarks.state_backend_engine import truth

EPOCHS = 10
TOUCHED = 20_000
"""Keys that an epoch touches, once each; fewer where there are fewer, and then also with the most keys."""
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
    """Returns numbers of keys, and how many of them an epoch touches.

    What is compared touches as many, each of them once: a second touch within an epoch finds what the first one left in
    memory, at any size. So sizes below `TOUCHED` are beside the largest one once more, with as many as the fewest have.
    """
    large, fewest = [count for count in keys if count >= TOUCHED], min(keys)
    if fewest >= TOUCHED:
        return [(count, TOUCHED) for count in large]
    few = [count for count in keys if count < TOUCHED or count == max(keys)]
    return [*((count, fewest) for count in few), *((count, TOUCHED) for count in large)]
