"""Builds all external assets of a stream from its plan: sources → states → checkpoint and sinks."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import dagster as dg

from lakestate.assets.checkpoint import build_checkpoint_spec
from lakestate.assets.names import dagster_name, sink_key, source_key, state_key
from lakestate.assets.state import build_state_spec
from lakestate.assets.stream_plan import Feeders, StreamPlan

Keys = Mapping[str, dg.AssetKey]


def build_lineage(
    job: str,
    plan: StreamPlan,
    *,
    fresh_within: timedelta | None = None,
    sources: Keys | None = None,
    sinks: Keys | None = None,
    uri: str = "",
) -> list[dg.AssetSpec]:
    """Returns the specs of the sources, states and sinks of a stream, and of its checkpoint.

    Args:
        job: Name of the job.
        plan: Its sources, states and sinks.
        fresh_within: As of `build_checkpoint_spec`.
        sources: Other assets of the code location that represent sources, by the names of the sources. They get no spec
            here.
        sinks: The same for sinks, by the uids of the sinks.
        uri: Folder of the job.
    """
    lineage = _Lineage(job, plan, sources or {}, sinks or {})
    states = [
        build_state_spec(
            job,
            state.table,
            about=state.about,
            deps=lineage.keys(plan.feeders_of(state.uid)),
            uri=f"{uri}/{state.table}" if uri else "",
        )
        for state in plan.states
    ]
    checkpoint = build_checkpoint_spec(job, fresh_within=fresh_within, states=[spec.key for spec in states])
    return [*lineage.sources(), *states, checkpoint, *lineage.sinks()]


class _Lineage:
    def __init__(self, job: str, plan: StreamPlan, sources: Keys, sinks: Keys) -> None:
        self._job, self._plan = job, plan
        self._foreign_sources, self._foreign_sinks = sources, sinks

    def keys(self, feeders: Feeders) -> list[dg.AssetKey]:
        tables = [state_key(self._job, table) for table in sorted(feeders.tables)]
        names = sorted(feeders.sources)
        return tables + [self._foreign_sources.get(name) or source_key(self._job, name) for name in names]

    def sources(self) -> list[dg.AssetSpec]:
        return [
            _end(self._job, source_key(self._job, source.name), "Source", source.kind, source.uri)
            for source in self._plan.sources
            if source.name not in self._foreign_sources
        ]

    def sinks(self) -> list[dg.AssetSpec]:
        return [
            _end(
                self._job, sink_key(self._job, sink.uid), "Output", sink.kind, sink.uri,
                self.keys(self._plan.writers_of(sink)),
            )
            for sink in self._plan.sinks
            if sink.uid not in self._foreign_sinks
        ]  # fmt: skip


def _end(
    job: str, key: dg.AssetKey, what: str, kind: str, uri: str, deps: Sequence[dg.AssetKey] | None = None
) -> dg.AssetSpec:
    return dg.AssetSpec(
        key=key,
        deps=deps,
        group_name=dagster_name(job),
        kinds={"spark"},
        description=f"{what} of the stream `{job}`{f' ({kind})' if kind else ''}.",
        metadata={"dagster/uri": uri} if uri else None,
    )


__all__ = ["build_lineage"]
