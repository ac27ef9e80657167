"""A translation changes keys and specs, and events are written to the translated keys."""

import dagster as dg
import pytest

from lakestate.assets import checkpoint_key, savepoint_key
from lakestate.assets.stream_plan import read_plan
from lakestate.assets.translation import StreamKeys
from lakestate.dagster import (
    StreamTranslator,
    asset_key_for_checkpoint,
    asset_key_for_restored_state,
    asset_key_for_savepoint,
    asset_key_for_sink,
    asset_key_for_source,
    asset_key_for_state,
    build_stream_definitions,
)
from lakestate.policies import RescalePolicy, SavepointPolicy, StreamPolicies, StreamRetention
from lakestate.registry import find_plan
from state_engine.errors import JobDefinitionError

EVERYTHING = StreamPolicies(
    savepoints=SavepointPolicy(cron="0 3 * * *", every_n_checkpoints=1, record_taken_elsewhere=True),
    retention=StreamRetention(cron="0 4 * * *", compaction_cron="0 5 * * *"),
    rescale=RescalePolicy(action="act"),
)


class OfProduction(StreamTranslator):
    """Prefixes all keys, and gives owners, tags and a group."""

    def get_asset_spec(self, asset):
        spec = super().get_asset_spec(asset)
        return spec.replace_attributes(
            key=spec.key.with_prefix("prod"),
            group_name=f"streams_{asset.role}",
            owners=["team:streams"],
            kinds={"lakestate"},
            description=f"{asset.role} {asset.uid} {asset.name}".strip(),
        ).merge_attributes(tags={"tier": "gold"})


class OfOneKey(StreamTranslator):
    """Gives all assets the same key."""

    def get_asset_spec(self, asset):
        return asset.spec.replace_attributes(key=dg.AssetKey("all"))


class OfUnsteadyKeys(StreamTranslator):
    """Makes the key of what is not known when an event is reported."""

    def get_asset_spec(self, asset):
        return asset.spec.replace_attributes(key=asset.spec.key.with_prefix(f"n{len(list(asset.spec.deps))}"))


@pytest.fixture
def defs(stream):
    return build_stream_definitions("flights", stream.state_store, EVERYTHING, translator=OfProduction())


def production(*parts):
    return dg.AssetKey(["prod", "flights", *parts])


def test_every_asset_and_every_edge_has_the_translated_key(defs, stream):
    plain = build_stream_definitions("flights", stream.state_store, EVERYTHING).resolve_asset_graph()
    graph = defs.resolve_asset_graph()
    assert len(plain.get_all_asset_keys()) > 10
    for key in plain.get_all_asset_keys():
        translated = graph.get(key.with_prefix("prod"))
        assert translated.parent_keys == {parent.with_prefix("prod") for parent in plain.get(key).parent_keys}
        assert translated.is_executable == plain.get(key).is_executable
        assert translated.partitions_def == plain.get(key).partitions_def
        assert translated.pools == plain.get(key).pools
    assert len(graph.get_all_asset_keys()) == len(plain.get_all_asset_keys())


def test_every_attribute_that_is_named_is_translated(defs):
    graph = defs.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        asset = graph.get(key)
        assert list(asset.owners) == ["team:streams"]
        assert asset.group_name.startswith("streams_")
        assert asset.tags["tier"] == "gold"
        assert asset.kinds == {"lakestate"}
    assert graph.get(production("states", "aircraft.legs")).description == "state aircraft legs"
    assert graph.get(production("sources", "flights_source")).description == "source  flights"
    assert graph.get(production("sinks", "legs_sink")).group_name == "streams_sink"
    assert graph.get(production("savepoint")).group_name == "streams_savepoint"


def test_checks_belong_to_the_translated_assets(defs, stream):
    plain = build_stream_definitions("flights", stream.state_store).resolve_asset_graph()
    wanted = {(key.asset_key.with_prefix("prod"), key.name) for key in plain.asset_check_keys}
    assert {(key.asset_key, key.name) for key in defs.resolve_asset_graph().asset_check_keys} == wanted
    assert len(wanted) == 8


def test_every_target_of_a_sensor_and_a_schedule_exists(defs):
    graph = defs.resolve_asset_graph()
    dg.Definitions.validate_loadable(defs)
    targets = [one.asset_selection for one in defs.sensors if one.asset_selection is not None]
    assert len(targets) >= 2
    for selection in targets:
        assert selection.resolve(graph) <= {production("savepoint"), production("rescaled_state")}


def test_the_names_of_schedules_jobs_and_sensors_are_not_translated(defs, stream):
    plain = build_stream_definitions("flights", stream.state_store, EVERYTHING)
    for kind in ("sensors", "schedules", "jobs"):
        assert [one.name for one in getattr(defs, kind)] == [one.name for one in getattr(plain, kind)]


def test_the_reporter_writes_to_the_translated_keys_and_reads_its_marks_there(defs, stream, instance):
    stream.checkpoints(1, 2)
    sensor = defs.resolve_sensor_def("flights_checkpoints")

    def tick(cursor):
        context = dg.build_sensor_context(instance, cursor=cursor, resources=stream.sensor_resources)
        return sensor(context)

    events = tick(None).asset_events
    assert {event.asset_key for event in events} == {production("checkpoint"), production("states", "aircraft.legs")}
    for event in events:
        instance.report_runless_asset_event(event)
    again = tick(None)  # no cursor: only the event log can say that they were reported
    assert isinstance(again, dg.SkipReason)
    assert "it is reported" in again.skip_message
    assert instance.get_latest_materialization_event(checkpoint_key("flights")) is None


def test_a_savepoint_run_records_and_checks_under_the_translated_key_and_is_found_there(defs, stream, instance):
    stream.checkpoints(1, 1)
    instance.add_dynamic_partitions("flights_savepoints", ["first"])
    savepoint = defs.resolve_assets_def(production("savepoint"))
    restored = defs.resolve_assets_def(production("restored_state"))

    def materialize():
        return dg.materialize([savepoint], instance=instance, partition_key="first")

    result = materialize()
    assert {one.asset_check_key.asset_key for one in result.get_asset_check_evaluations()} == {production("savepoint")}
    metadata = instance.get_latest_materialization_event(production("savepoint")).asset_materialization.metadata
    assert metadata["is_new"].value is True
    assert instance.get_latest_materialization_event(savepoint_key("flights")) is None
    again = materialize().asset_materializations_for_node("flights__savepoint")[0].metadata
    assert again["savepoint_id"].value == metadata["savepoint_id"].value
    assert again["is_new"].value is False

    done = dg.materialize(
        [restored, savepoint],
        selection=[production("restored_state")],
        instance=instance,
        partition_key=dg.MultiPartitionKey({"savepoint": "first", "key_groups": "range_00_of_16"}),
    )
    assert done.success
    told = instance.get_latest_materialization_event(production("restored_state")).asset_materialization.metadata
    assert told["savepoint_id"].value == metadata["savepoint_id"].value


def test_a_sensor_requests_the_run_of_the_translated_savepoint(defs, stream, instance):
    stream.checkpoints(1, 3)
    sensor = defs.resolve_sensor_def("flights_savepoint_triggers")
    context = dg.build_sensor_context(instance, resources=stream.sensor_resources)
    (request,) = sensor(context).run_requests
    ran = dg.materialize(
        [defs.resolve_assets_def(production("savepoint"))],
        instance=instance,
        partition_key=request.partition_key,
        run_config=request.run_config,
    )
    assert ran.success
    look = sensor(dg.build_sensor_context(instance, resources=stream.sensor_resources))
    assert not look.run_requests  # it found the savepoint under its translated key


def test_helpers_give_the_keys_of_the_definitions(defs):
    graph = defs.resolve_asset_graph()
    for translator, keys in ((None, StreamKeys("flights")), (OfProduction(), StreamKeys("flights", OfProduction()))):
        helped = [
            asset_key_for_state("flights", "aircraft", "legs", translator=translator),
            asset_key_for_checkpoint("flights", translator=translator),
            asset_key_for_savepoint("flights", translator=translator),
            asset_key_for_restored_state("flights", translator=translator),
            asset_key_for_source("flights", "flights", translator=translator),
            asset_key_for_sink("flights", "legs", translator=translator),
        ]
        assert helped == [
            keys.state("aircraft/legs"),
            keys.checkpoint,
            keys.savepoint,
            keys.restored_state,
            keys.source("flights"),
            keys.sink("legs"),
        ]
        assert len(set(helped)) == len(helped)
        if translator is not None:
            assert set(helped) <= graph.get_all_asset_keys()


def test_operator_state_and_keyed_state_of_one_name_are_two_assets():
    keyed = asset_key_for_state("flights", "aircraft", "legs")
    assert asset_key_for_state("flights", "aircraft", "legs", of_operator=True) != keyed


def test_assets_of_the_code_location_keep_their_own_keys(stream):
    defs = build_stream_definitions(
        "flights",
        stream.state_store,
        plan=read_plan("flights", find_plan("flights")),
        sources={"flights": dg.AssetKey(["raw", "flights"])},
        translator=OfProduction(),
    )
    graph = defs.resolve_asset_graph()
    assert dg.AssetKey(["raw", "flights"]) in graph.get(production("checkpoint")).parent_keys
    assert production("sources", "flights_source") not in graph.get_all_asset_keys()


@pytest.mark.parametrize(
    ("translator", "said"), [(OfOneKey(), "the same key, all"), (OfUnsteadyKeys(), "two keys: n0/flights")]
)
def test_a_translation_that_contradicts_itself_is_refused_when_the_definitions_are_built(stream, translator, said):
    with pytest.raises(JobDefinitionError, match=said) as refused:
        build_stream_definitions("flights", stream.state_store, translator=translator)
    assert refused.value.action
