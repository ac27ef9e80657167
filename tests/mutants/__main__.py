"""`make mutants`: runs every planted bug against the tests that must notice it, and prints which test did.

The exit code is 1 if a mutant survives, does not apply or cannot be run, and if a killer fails without any bug.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mutant import Mutant
from mutant_runs import TIME_LIMIT_S, Ran, Verdict, run_mutant, run_tests
from planted import FIXED, MUTANTS
from private_copy import copy_checkout

HISTORY_S = 0.5
"""Seconds that a random history may take."""


def main() -> int:
    """Runs the mutants that the command line chooses; returns the exit code."""
    options = _options()
    chosen = [mutant for mutant in (FIXED if options.ten else MUTANTS) if _wanted(mutant, options.k)]
    if options.since:
        changed = _changed_since(options.since)
        chosen = [mutant for mutant in chosen if not changed.isdisjoint(mutant.files)]
    if options.against:
        chosen = [replace(mutant, killers=tuple(options.against)) for mutant in chosen]
    equivalent = [mutant for mutant in chosen if mutant.equivalent]
    to_run = [mutant for mutant in chosen if not mutant.equivalent]
    if not to_run:
        why = f" and was changed since {options.since}" if options.since else ""
        print(f"no mutant has {options.k!r} in its name{why}", file=sys.stderr)
        return 0 if options.since else 1
    began = time.monotonic()
    with TemporaryDirectory(prefix="lakestate-mutants-") as folder:
        package = copy_checkout(Path(folder) / "package")
        if not (options.no_clean or options.ten or options.histories) and not _killers_pass(package, to_run):
            return 1
        limit_s = max(options.time_limit, options.histories * HISTORY_S)
        ran = _run_all(package, to_run, options.n, limit_s, options.histories, verbose=options.v)
    _print_table(ran, equivalent, time.monotonic() - began)
    return 0 if all(one.verdict is Verdict.KILLED for _, one in ran) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("-k", metavar="TEXT", default="", help="only mutants whose room/name contains it; `a or b`")
    parser.add_argument("--since", metavar="COMMIT", help="only mutants whose module or tests differ from this commit")
    parser.add_argument("--ten", action="store_true", help="only the ten of .ci/run, which has run the killers already")
    parser.add_argument("-n", type=int, default=2, metavar="N", help="how many run at a time (default: 2)")
    parser.add_argument("-v", action="store_true", help="print pytest's output for each mutant")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT_S, metavar="S", help="seconds for each mutant")
    parser.add_argument("--against", nargs="+", metavar="TEST", help="run these tests instead of the listed killers")
    parser.add_argument("--histories", type=int, default=0, metavar="N", help="play random histories, not tests")
    parser.add_argument("--no-clean", action="store_true", help="do not run the killers without a bug first")
    return parser.parse_args()


def _wanted(mutant: Mutant, text: str) -> bool:
    return any(part.strip() in mutant.id for part in text.split(" or "))


def _changed_since(commit: str) -> set[str]:
    """Returns the files that differ from a commit, those that are not committed yet included."""
    git = ["git", "diff", "--name-only", commit, "--"]
    return set(subprocess.run(git, capture_output=True, text=True, check=True).stdout.split())


def _killers_pass(package: Path, mutants: Sequence[Mutant]) -> bool:
    """Runs all killers once on the unchanged copy: a test that fails there would kill every mutant."""
    tests = sorted({test for mutant in mutants for test in mutant.killers})
    print(f"{len(tests)} killers without any bug ...", flush=True)
    ran = run_tests(package, tests, limit_s=1200)
    print(f"    {'passed' if ran.verdict is Verdict.SURVIVED else f'FAILED: {ran.test}'} ({ran.seconds:.0f} s)")
    if ran.verdict is not Verdict.SURVIVED:
        print(ran.message, file=sys.stderr)
    return ran.verdict is Verdict.SURVIVED


def _run_all(
    package: Path, mutants: Sequence[Mutant], parallel: int, limit_s: float, histories: int, *, verbose: bool
) -> list[tuple[Mutant, Ran]]:
    """Runs the mutants in parallel, and prints a line when each one ends."""

    def run(mutant: Mutant) -> tuple[Mutant, Ran]:
        ran = run_mutant(mutant, package, limit_s, histories)
        print(f"{ran.verdict.value:8} {mutant.id} ({ran.seconds:.1f} s)", flush=True)
        if ran.verdict is Verdict.ERROR or (verbose and ran.message):
            print("\n".join(f"    {line}" for line in ran.message.splitlines()[-40:]), flush=True)
        return mutant, ran

    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(run, mutants))


def _print_table(ran: Sequence[tuple[Mutant, Ran]], equivalent: Sequence[Mutant], seconds: float) -> None:
    width = max(len(mutant.id) for mutant in [*(m for m, _ in ran), *equivalent])
    print()
    for mutant, one in ran:
        outcome = one.test if one.verdict is Verdict.KILLED else one.verdict.value
        print(f"{mutant.id:{width}}  {one.seconds:6.1f} s  {outcome}")
    for mutant in equivalent:
        print(f"{mutant.id:{width}}  not run   equivalent: {mutant.equivalent}")
    counts = {verdict: sum(one.verdict is verdict for _, one in ran) for verdict in Verdict}
    print(
        f"\n{counts[Verdict.KILLED]} killed, {counts[Verdict.SURVIVED]} survived, {counts[Verdict.ERROR]} errors, "
        f"{len(equivalent)} equivalent, in {seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
