"""The plan of a job of ten states and six sinks, some of which have the names of others."""

from lakestate.assets.stream_plan import Sink, Source, State, StreamPlan

_STATES = {
    "clean": ("seen",),
    "enrich": ("fares", "airports"),
    "sessions": ("open", "count", "_event_time_timers"),
    "totals": ("count", "sum", "late"),
    "alerts": ("threshold",),
}
_SINKS = {
    "flights": "clean",
    "enriched": "enrich",
    "sessions": "sessions",
    "totals": "totals",
    "late": "totals",
    "alerts": "alerts",
}
WIDE = StreamPlan(
    sources=(Source("flights", "kafka"), Source("fares", "parquet")),
    states=tuple(
        State(uid, f"{uid}/{name}", "Value state of `bigint`") for uid, names in _STATES.items() for name in names
    ),
    sinks=tuple(Sink(uid, "DeltaSink", "", operator) for uid, operator in _SINKS.items()),
)
