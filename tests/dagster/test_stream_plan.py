"""The parts of a stream, without importing the job: from the output of `lakestate explain`, and from its epochs."""

import json
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wide_plan import WIDE

from lakestate.assets import build_lineage
from lakestate.assets.stream_plan import Sink, Source, State, StreamPlan, merged, plan_of, read_plan
from lakestate.registry import find_plan
from state_engine.errors import JobDefinitionError
from state_engine.log.records import Manifest, OperatorEpoch, SinkTable, Span
from state_engine.log.source_records import SourceFingerprint
from state_engine.testing.changes import state

ROOT = Path(__file__).resolve().parents[2]
PLAN = StreamPlan(
    sources=(Source("flights", "parquet"),),
    states=(State("aircraft", "aircraft/legs"), State("carrier", "carrier/record")),
    sinks=(Sink("legs", "DeltaSink", "", "aircraft"), Sink("late", "DeltaSink", "", "filter")),
)


def manifest(**fields):
    return Manifest(
        job="flights", generation=1, epoch=3, kind="epoch", incarnation="x", incarnation_number=1, predecessor="",
        processing_time=0, lineage=(Span(generation=1, first=1),), **fields,
    )  # fmt: skip


def test_the_flights_are_known_before_they_ever_run():
    plan = read_plan("flights", find_plan("flights"))
    assert [source.name for source in plan.sources] == ["flights"]
    assert {state.table for state in plan.states} == {
        "aircraft/legs", "aircraft/cancelled", "aircraft/rolling_delay", "aircraft/late_streak", "aircraft/routes",
        "carrier/record",
    }  # fmt: skip
    assert {(sink.uid, sink.operator) for sink in plan.sinks} == {
        ("legs", "aircraft"), ("no_tailnum", "aircraft"), ("carriers", "carrier"),
    }  # fmt: skip


@pytest.mark.parametrize("job", ["flights", "fraud", "orders"])  # that of `visits` needs Spark: test_visits.py
def test_the_plan_of_an_example_is_that_of_its_code(job):
    import msgspec

    from lakestate.registry import build_dry
    from state_engine.spark.explain import explain_job

    explained = explain_job(build_dry(job))
    written = json.loads((ROOT / "examples" / job / "job.plan.json").read_bytes())
    again = f"lakestate explain {job} --json > examples/{job}/job.plan.json"
    assert written == json.loads(msgspec.json.encode(explained)), again


def test_an_epoch_has_states_sources_and_tables_of_sinks():
    gone = state("gone", "old", "k string", "bigint")
    known = state("aircraft", "legs", "k string", "bigint")
    explained = plan_of(
        manifest(
            schemas=(gone, known),
            operators={"aircraft": OperatorEpoch(parallelism=2, max_parallelism=13)},
            fingerprints=(SourceFingerprint(kind="parquet", path="file:/in"),),
            sinks=(
                SinkTable(uid="legs", kind="delta", table="/old"),
                SinkTable(uid="legs", kind="delta", table="/new"),
            ),
        )
    )
    assert [state.table for state in explained.states] == ["aircraft/legs"], "an operator that is gone has no state now"
    assert explained.sources == (Source("source_1", "parquet", "file:/in"),)
    assert explained.sinks == (Sink("legs", "delta", "/new"),)


def test_a_plan_and_an_epoch_make_one():
    seen = StreamPlan(
        sources=(Source("source_1", "parquet", "file:/in"),),
        states=(State("aircraft", "aircraft/legs"), State("aircraft", "aircraft/_timers")),
        sinks=(Sink("legs", "delta", "/tables/legs"),),
    )
    both = merged(PLAN, seen)
    assert both.sources == (Source("flights", "parquet", "file:/in"),)
    assert [state.table for state in both.states] == ["aircraft/legs", "carrier/record", "aircraft/_timers"]
    assert both.sinks[0] == Sink("legs", "DeltaSink", "/tables/legs", "aircraft")
    assert merged(None, seen) is seen
    assert merged(PLAN, None) is PLAN
    assert merged(None, None) == StreamPlan()


NAME = st.text("ab._-", min_size=1, max_size=4).filter(lambda name: name[0] in "ab")
STATE_NAME = NAME | NAME.map("_{}".format)  # the runtime's own states begin with a sign


@given(st.sets(st.tuples(st.booleans(), NAME, STATE_NAME)), st.sets(NAME), st.sets(NAME))
@example({(False, "a.b", "c"), (False, "a", "b.c"), (True, "a", "b.c")}, {"a"}, {"a"})
@example({(False, "sinks", "a"), (False, "a", "a_sink")}, {"a"}, {"a.a", "a"})
def test_no_two_nodes_of_a_job_have_the_same_name(states, sources, sinks):
    """The graph shows the last part of a key."""
    plan = StreamPlan(
        sources=tuple(Source(name) for name in sources),
        states=tuple(State(uid, f"_operator/{uid}/{name}" if own else f"{uid}/{name}") for own, uid, name in states),
        sinks=tuple(Sink(uid) for uid in sinks),
    )
    names = [spec.key.path[-1] for spec in build_lineage("flights", plan)]
    names += ["savepoint", "restored_state", "rescaled_state", "retention", "compaction"]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("job", ["flights", "orders"])
def test_no_two_nodes_of_an_example_have_the_same_name(job):
    from lakestate.definitions import defs

    graph = defs.resolve_asset_graph()
    keys = [key for key in graph.get_all_asset_keys() if (graph.get(key).group_name or "").split("/")[0] == job]
    names = [key.path[-1] for key in keys]
    assert len(names) == len(set(names)) >= 14


def test_the_lineage_goes_from_sources_by_the_checkpoint_to_states_and_sinks():
    specs = {spec.key.to_user_string(): spec for spec in build_lineage("flights", PLAN, uri="/state/flights")}
    upstream = {key: {dep.asset_key.to_user_string() for dep in spec.deps} for key, spec in specs.items()}
    assert upstream == {
        "flights/sources/flights_source": set(),
        "flights/checkpoint": {"flights/sources/flights_source"},
        "flights/states/aircraft.legs": {"flights/checkpoint"},
        "flights/states/carrier.record": {"flights/checkpoint"},
        "flights/sinks/legs_sink": {"flights/checkpoint"},
        "flights/sinks/late_sink": {"flights/checkpoint"},
    }
    assert specs["flights/states/aircraft.legs"].metadata["dagster/uri"] == "/state/flights/aircraft/legs"
    dg.Definitions.validate_loadable(dg.Definitions(assets=list(specs.values())))


def test_the_lineage_of_a_job_of_ten_states_and_six_sinks_has_few_edges():
    specs = build_lineage("wide", WIDE)
    assert len(specs) == 2 + 1 + 10 + 6
    assert sum(len([*spec.deps]) for spec in specs) == len(specs) - 1
    groups = Counter(spec.group_name for spec in specs)
    assert groups == {"wide": 1, "wide/sources": 2, "wide/states": 10, "wide/sinks": 6}


def test_sources_and_sinks_may_be_assets_of_another_project():
    raw, mart = dg.AssetKey(["raw", "flights"]), dg.AssetKey("mart")
    specs = {
        spec.key.to_user_string(): spec
        for spec in build_lineage("flights", PLAN, sources={"flights": raw}, sinks={"legs": mart})
    }
    assert not {"flights/sources/flights_source", "flights/sinks/legs_sink", "raw/flights", "mart"} & specs.keys()
    assert raw in {dep.asset_key for dep in specs["flights/checkpoint"].deps}


@pytest.mark.parametrize("text", [b"", b"{}", b'{"job": 3}', b'{"job": "orders"}', b"[]"])
def test_what_is_no_plan_of_the_job_is_refused(text):
    with pytest.raises(JobDefinitionError, match="plan of job 'flights'") as refused:
        read_plan("flights", text)
    assert "lakestate explain flights --json" in refused.value.action


def test_operator_state_has_a_key_of_its_own():
    text = json.dumps(
        {
            "job": "j",
            "operators": [
                {
                    "uid": "o",
                    "states": [
                        {"name": "s", "kind": "keyed", "shape": "value", "type": "int"},
                        {"name": "s", "kind": "operator", "shape": "list", "type": "int"},
                    ],
                }
            ],
        }
    )
    keys = [spec.key.to_user_string() for spec in build_lineage("j", read_plan("j", text))]
    assert keys == ["j/checkpoint", "j/states/o.s", "j/states/_operator.o.s"]


def test_a_plan_beside_a_module_is_found_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "shop" / "jobs"
    package.mkdir(parents=True)
    for folder in (tmp_path / "shop", package):
        (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "carts.plan.json").write_text("{}")
    (tmp_path / "alone.plan.json").write_text("[]")
    (tmp_path / "alone.py").write_text("raise RuntimeError('imported')\n")
    information = tmp_path / "shop-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1\n")
    (information / "entry_points.txt").write_text(
        "[lakestate.jobs]\ncarts = shop.jobs.carts:build\nbills = shop.jobs.bills:build\n"
        "alone = alone:build\nmissing = not_there.jobs:build\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_plan("carts") == b"{}"
    assert find_plan("alone") == b"[]"
    assert find_plan("bills") is None
    assert find_plan("missing") is None
