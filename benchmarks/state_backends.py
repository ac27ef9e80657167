"""Workload `state_backends`: heap against RocksDB, by shape of state and number of keys; each epoch touches as many."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.model import STATE_BACKENDS, STORES, Case, Result
from benchmarks.runner import EngineFailedError, middle, result_of, run_case
from benchmarks.running_count import Report
from benchmarks.state_backend_engine import truth

EPOCHS = 10
TOUCHED = 20_000
SHAPES = ("value", "ttl", "map", "list", "timers")


def measure(
    folder: Path, tell: Callable[[str], None], keys: Sequence[int], shapes: Sequence[str] = SHAPES, rounds: int = 1
) -> Report:
    """Runs each shape at each number of keys, backend after backend, and returns one row per case."""
    rows: dict[tuple[int, str], list[Result]] = {}
    failures: list[str] = []
    for round_number in range(1, rounds + 1):
        for case in cases(folder / f"round-{round_number}", keys, shapes):
            what = f"{case.engine}, {case.keys:,} keys, round {round_number}"
            tell(f"running {what}")
            try:
                run = run_case(case)
            except EngineFailedError as error:
                failures.append(f"{what}: {error}")
                tell(failures[-1])
                continue
            result = result_of(run, truth(case))
            tell(f"  {result.records_per_second:,.0f} touches/s, results equal: {result.results_equal}")
            rows.setdefault((case.keys, case.engine), []).append(result)
    return Report([middle(results) for results in rows.values()], failures)


def cases(folder: Path, keys: Sequence[int], shapes: Sequence[str]) -> list[Case]:
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
        for engine in STORES
        if engine.partition("/")[0] in shapes
    ]
