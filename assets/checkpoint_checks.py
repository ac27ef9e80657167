"""Checks of the newest checkpoint of a stream: its age, the growth of its states, and how evenly their keys are spread.

The sensor that reports checkpoints writes the verdicts; users can execute the same checks in the UI. Nothing here reads
state of any size.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

import dagster as dg

from lakestate.assets.metadata import MARK_ID, Metadata
from lakestate.assets.names import checkpoint_key, dagster_name
from lakestate.policies import CheckLimits
from lakestate.policies.limits import Spread, Verdict, judge_age, judge_growth, judge_skew, spread_of
from lakestate.resources import StateStoreResource
from state_engine.checkpoint.completed import CompletedCheckpoints
from state_engine.checkpoint.table import CheckpointRow
from state_engine.clock import SystemClock
from state_engine.inspect import JobView

AGE = "age"
GROWTH = "state_growth"
SKEW = "key_group_skew"
CHECKS = {
    AGE: "The newest completed checkpoint is not too old.",
    GROWTH: "No state has grown beyond the limit.",
    SKEW: "No key group has far more rows of a state than the mean.",
}

Verdicts = dict[str, Verdict]


def checkpoint_checks(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Returns the checks of `<job>/checkpoint`, or of the key that a translation gave it."""
    return [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in CHECKS.items()]


def build_checkpoint_checks(
    job: str, limits: CheckLimits, *, key: dg.AssetKey | None = None
) -> dg.AssetChecksDefinition:
    """Returns the checks that a user can execute: one look at the store, without a JVM.

    Args:
        job: Name of the job.
        limits: When a check fails.
        key: Key of its checkpoint; by default `<job>/checkpoint`.
    """
    key = key or checkpoint_key(job)

    @dg.multi_asset_check(
        name=f"{dagster_name(job)}_checkpoint_checks",
        specs=checkpoint_checks(key),
        description=(
            f"Checks the newest checkpoint of the stream `{job}`. **Execute** checks it now; the sensor checks each "
            "one that it reports. A check only reads."
        ),
    )
    def check(context: dg.AssetCheckExecutionContext, state_store: StateStoreResource) -> Iterator[dg.AssetCheckResult]:
        view = state_store.open_job(job)
        completed = view.completed_checkpoints()
        newest = completed.newest()
        spreads = spreads_of(view, newest) if newest is not None else {}
        for name, verdict in judged(limits, completed, spreads, SystemClock().now_ms()).items():
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=name,
                passed=verdict.passed,
                severity=_severity(name),
                description=verdict.said,
                metadata=_metadata(verdict, newest),
            )

    return check


def judged(
    limits: CheckLimits, completed: CompletedCheckpoints, spreads: Mapping[str, Spread], now_ms: int
) -> Verdicts:
    """Returns the verdict of every check about the newest checkpoint.

    Args:
        limits: The limits.
        completed: The completed checkpoints.
        spreads: How the rows of the states of the newest one are spread, by `<uid>/<state>`.
        now_ms: The current time.
    """
    rows = list(islice(completed, limits.growth_over + 1))
    before = rows_of(rows[-1]) if len(rows) > limits.growth_over else None
    return {
        AGE: age_verdict(limits, rows[0] if rows else None, now_ms),
        GROWTH: judge_growth(limits, rows_of(rows[0]) if rows else {}, before),
        SKEW: judge_skew(limits, spreads),
    }


def age_verdict(limits: CheckLimits, newest: CheckpointRow | None, now_ms: int) -> Verdict:
    """Returns the verdict about the age of the newest checkpoint."""
    return judge_age(limits, timedelta(milliseconds=now_ms - newest.completed_at) if newest is not None else None)


def rows_of(row: CheckpointRow) -> dict[str, int]:
    """Returns the live rows of each state by `<uid>/<state>`; rows of its log if the live ones were not reported."""
    return {state.table: state.rows if state.rows is not None else state.log_rows for state in row.states}


def spreads_of(view: JobView, row: CheckpointRow) -> dict[str, Spread]:
    """Returns how the rows of each state of a checkpoint are spread over the key groups.

    Raises:
        CorruptionError: The base of the checkpoint is missing or damaged.
    """
    published = view.published(row)
    if published is None:
        return {}
    schemas = {state.table: published.schema(state.table) for state in row.states}
    return {table: spread_of(published.key_groups(schema)) for table, schema in schemas.items() if schema is not None}


def evaluation(key: dg.AssetKey, name: str, verdict: Verdict, newest: CheckpointRow) -> dg.AssetCheckEvaluation:
    """Returns a verdict as the event of a sensor."""
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=name,
        passed=verdict.passed,
        severity=_severity(name),
        description=verdict.said,
        metadata=_metadata(verdict, newest),
    )


def _severity(name: str) -> dg.AssetCheckSeverity:
    """Returns ERROR for a stream without new checkpoints, WARN for growth and skew."""
    return dg.AssetCheckSeverity.ERROR if name == AGE else dg.AssetCheckSeverity.WARN


def _metadata(verdict: Verdict, newest: CheckpointRow | None) -> Metadata:
    return {
        MARK_ID: dg.MetadataValue.int((newest.checkpoint_id if newest is not None else 0) or 0),
        "measured": _number(verdict.measured),
        "limit": _number(verdict.limit),
        "state": dg.MetadataValue.text(verdict.worst),
    }


def _number(value: float | None) -> dg.MetadataValue[Any]:
    return dg.MetadataValue.float(round(value, 3)) if value is not None else dg.MetadataValue.null()


__all__ = [
    "AGE",
    "CHECKS",
    "GROWTH",
    "SKEW",
    "age_verdict",
    "build_checkpoint_checks",
    "checkpoint_checks",
    "evaluation",
    "judged",
    "rows_of",
    "spreads_of",
]
