"""Builds the events of one tick of the checkpoint sensor: news of a stream's checkpoint, its states and its checks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import dagster as dg
import pyarrow as pa

from lakestate.assets.checkpoint import checkpoint_materialization
from lakestate.assets.checkpoint_checks import AGE, age_verdict, evaluation, judged
from lakestate.assets.state import state_materialization
from lakestate.assets.translation import StreamKeys
from lakestate.operate.marks import Mark, last_reported, mark_of, skipped_since
from lakestate.policies import CheckLimits
from lakestate.policies.limits import spread_of
from lakestate.rest.job_bodies import SourceLag
from state_engine.checkpoint.completed import CompletedCheckpoints
from state_engine.checkpoint.table import CheckpointRow, StateRow
from state_engine.errors import LakestateError
from state_engine.inspect import JobView, PublishedStates
from state_engine.log.records import StateSchema

_MILLISECOND = timedelta(milliseconds=1)


class SeenState(NamedTuple):
    """What was read of one state; only its row and, if known, its schema if its files cannot be read."""

    row: StateRow
    schema: StateSchema | None = None
    groups: Sequence[float] = ()
    sample: pa.Table | None = None


class CheckpointReport:
    """Compares the newest checkpoint with the event log, and builds the events that are missing.

    Args:
        context: Of the tick.
        view: The job.
        completed: Its completed checkpoints.
        newest: The newest of them.
        cursor: The mark in the sensor's cursor, used if the event log has none.
        uri: Folder of the job.
        now_ms: The current time.
        keys: Asset keys of the stream.
        sources: Returns how far the job is behind its sources; called only for a new checkpoint.
    """

    def __init__(
        self,
        context: dg.SensorEvaluationContext,
        view: JobView,
        completed: CompletedCheckpoints,
        newest: CheckpointRow,
        *,
        cursor: Mark | None,
        uri: str,
        now_ms: int,
        keys: StreamKeys,
        sources: Callable[[], Sequence[SourceLag]] = tuple,
    ) -> None:
        self._context, self._view, self._checkpoint_key = context, view, keys.checkpoint
        self._sources = sources
        self._completed, self._newest, self._uri, self._now_ms = completed, newest, uri, now_ms
        self._keys = {state.table: keys.state(state.table) for state in newest.states}
        self._marks: Mapping[dg.AssetKey, Mark] = last_reported(
            context.instance, [keys.checkpoint, *self._keys.values()]
        )
        self._mark = self._marks.get(keys.checkpoint) or cursor

    @property
    def is_new(self) -> bool:
        """Whether the checkpoint itself has no event yet."""
        return self._mark != mark_of(self._newest)

    @property
    def skipped(self) -> int:
        """Number of checkpoints between the last reported one and this one, which have no event."""
        return skipped_since(self._completed, self._mark)

    def events(
        self, limits: CheckLimits, sample_rows: int
    ) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
        """Yields the missing events, that of the checkpoint last: states without a mark of their own use its mark."""
        seen = self._look(sample_rows)
        for state in seen:
            if not self._is_told(state.row):
                yield self._state_event(state)
        yield from self._evaluations(limits, seen)
        if self.is_new:
            yield checkpoint_materialization(
                self._checkpoint_key,
                self._newest,
                skipped=self.skipped,
                uri=self._uri,
                now_ms=self._now_ms,
                sources=self._sources(),
            )

    def _is_told(self, state: StateRow) -> bool:
        return self._marks.get(self._keys[state.table]) == mark_of(self._newest)

    def _look(self, sample_rows: int) -> list[SeenState]:
        """Reads a little of each state that has to be reported; of all states for the checks of a new checkpoint."""
        wanted = [state for state in self._newest.states if self.is_new or not self._is_told(state)]
        if not wanted:
            return []
        try:
            published = self._view.published(self._newest)
        except LakestateError as error:
            self._context.log.warning(f"The base of checkpoint {self._newest.checkpoint_id} cannot be read: {error}")
            published = None
        return [self._seen(published, state, sample_rows) for state in wanted]

    def _seen(self, published: PublishedStates | None, state: StateRow, sample_rows: int) -> SeenState:
        schema = published.schema(state.table) if published is not None else None
        if published is None or schema is None:
            return SeenState(state)
        try:
            sample = published.sample(schema, sample_rows) if sample_rows else None
            return SeenState(state, schema, published.key_groups(schema), sample)
        except LakestateError as error:  # a damaged file must not prevent the report of the figures
            self._context.log.warning(f"State {state.table} cannot be read: {error}")
            return SeenState(state, schema)

    def _state_event(self, state: SeenState) -> dg.AssetMaterialization:
        key = self._keys[state.row.table]
        mark = self._marks.get(key)
        return state_materialization(
            key,
            self._newest,
            state.row,
            schema=state.schema,
            groups=state.groups,
            sample=state.sample,
            skipped=skipped_since(self._completed, mark or self._mark),
            uri=f"{self._uri}/{state.row.table}",
            now_ms=self._now_ms,
        )

    def _evaluations(self, limits: CheckLimits, seen: Sequence[SeenState]) -> Iterator[dg.AssetCheckEvaluation]:
        """Yields the verdicts that have changed, or were last recorded too long ago."""
        if self.is_new:
            spreads = {state.row.table: spread_of(state.groups) for state in seen}
            verdicts = judged(limits, self._completed, spreads, self._now_ms)
        else:
            verdicts = {AGE: age_verdict(limits, self._newest, self._now_ms)}
        keys = {name: dg.AssetCheckKey(self._checkpoint_key, name) for name in verdicts}
        records = self._context.instance.event_log_storage.get_latest_asset_check_execution_by_key([*keys.values()])
        for name, verdict in verdicts.items():
            record = records.get(keys[name])
            last = record.event.asset_check_evaluation if record is not None and record.event is not None else None
            age_ms = self._now_ms - record.create_timestamp * 1000 if record is not None else 0
            if last is None or last.passed != verdict.passed or age_ms >= limits.repeat_after / _MILLISECOND:
                yield evaluation(self._checkpoint_key, name, verdict, self._newest)


__all__ = ["CheckpointReport", "SeenState"]
