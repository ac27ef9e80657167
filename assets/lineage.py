"""Builds all external assets of a stream from its plan: sources → checkpoint → states and sinks.

Every edge begins or ends at the checkpoint, and sources, states and sinks are groups nested in the job's group. So the
lineage of a job fits on a screen, however many states it has. `lakestate explain` prints which operator reads which.
"""

from collections.abc import Mapping
from datetime import timedelta

import dagster as dg

from lakestate.assets.checkpoint import build_checkpoint_spec
from lakestate.assets.metadata import lineage_link
from lakestate.assets.names import checkpoint_key, sink_key, sinks_group, source_key, sources_group
from lakestate.assets.state import build_state_spec
from lakestate.assets.stream_plan import Sink, Source, StreamPlan

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
    own_sources, own_sinks = sources or {}, sinks or {}
    inputs = [own_sources.get(source.name) or source_key(job, source.name) for source in plan.sources]
    return [
        *(_source_spec(job, source) for source in plan.sources if source.name not in own_sources),
        build_checkpoint_spec(job, fresh_within=fresh_within, sources=inputs),
        *(
            build_state_spec(
                job, state.table, operator=state.uid, about=state.about, uri=f"{uri}/{state.table}" if uri else ""
            )
            for state in plan.states
        ),
        *(_sink_spec(job, sink) for sink in plan.sinks if sink.uid not in own_sinks),
    ]


def _source_spec(job: str, source: Source) -> dg.AssetSpec:
    kind = f" ({source.kind})" if source.kind else ""
    return dg.AssetSpec(
        key=source_key(job, source.name),
        group_name=sources_group(job),
        kinds={"spark"},
        description=(
            f"Source `{source.name}`{kind} of the stream `{job}`: what it reads. It is shown for the lineage; it "
            "cannot be materialised, has no events, and Dagster never reads it."
        ),
        metadata={**lineage_link(job), **({"dagster/uri": source.uri} if source.uri else {})},
    )


def _sink_spec(job: str, sink: Sink) -> dg.AssetSpec:
    kind = f" ({sink.kind})" if sink.kind else ""
    writer = f"operator `{sink.operator}`" if sink.operator else "the stream"
    return dg.AssetSpec(
        key=sink_key(job, sink.uid),
        deps=[checkpoint_key(job)],
        group_name=sinks_group(job),
        kinds={"spark"},
        description=(
            f"Sink `{sink.uid}`{kind} of the stream `{job}`: what {writer} writes. It is shown for the lineage; it "
            "cannot be materialised, has no events, and Dagster never writes to it."
        ),
        metadata={**lineage_link(job), **({"dagster/uri": sink.uri} if sink.uri else {})},
    )


__all__ = ["build_lineage"]
