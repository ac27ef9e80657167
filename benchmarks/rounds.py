"""Runs the cases of a workload in rounds: engines take turns; failures are reported, and have no row."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from benchmarks.model import Case, Result
from benchmarks.runner import EngineFailedError, Run, middle, run_case


class Report(NamedTuple):
    """Rows, and the engines that failed."""

    results: list[Result]
    failures: list[str]


def run_rounds(
    rounds: int,
    cases: Callable[[int], Iterable[Case]],
    judged: Callable[[Run], Result],
    tell: Callable[[str], None],
    name: Callable[[Case], str],
) -> Report:
    """Runs every case of every round, and returns one row per case: the middle of several rounds.

    Args:
        rounds: Number of rounds.
        cases: Yields the cases of a round, in the same order each time.
        judged: Returns the row of a run, with its results compared with the truth.
        tell: Called with lines of progress.
        name: Returns the name of a case, which is unique within a round.
    """
    rows: dict[str, list[Result]] = {}
    failures: list[str] = []
    for round_number in range(1, rounds + 1):
        for case in cases(round_number):
            what = f"{name(case)}, round {round_number}"
            tell(f"running {what}")
            try:
                run = run_case(case)
            except EngineFailedError as error:
                failures.append(f"{what}: {error}")
                tell(failures[-1])
                continue
            result = judged(run)
            tell(f"  {result.records_per_second:,.0f} records/s, results equal: {result.results_equal}")
            rows.setdefault(name(case), []).append(result)
    return Report([middle(results) for results in rows.values()], failures)
