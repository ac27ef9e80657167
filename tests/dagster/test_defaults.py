"""What runs as soon as a code location loads: what reads and reports, and beyond that only what policies ask for."""

import dagster as dg
import pytest

from lakestate.assets.ranges import RANGES, restore_partitions
from lakestate.policies import ExponentialDelay, RescalePolicy, SavepointPolicy, StreamPolicies, StreamRetention
from lakestate.policies.savepoints import MOST_PARTITIONS
from lakestate.stream_definitions import build_stream_definitions
from state_engine.errors import JobDefinitionError

REPORTERS = {"flights_checkpoints", "flights_health"}
ASKED = {
    "flights_engine_savepoints": {"savepoints": SavepointPolicy(record_taken_elsewhere=True)},
    "flights_savepoint_triggers": {"savepoints": SavepointPolicy(on_new_code_version=True)},
    "flights_savepoints": {"savepoints": SavepointPolicy(cron="0 3 * * *")},
    "flights_retention": {"retention": StreamRetention(cron="0 4 * * *")},
    "flights_compaction": {"retention": StreamRetention(compaction_cron="0 5 * * *")},
    "flights_rescale": {"rescale": RescalePolicy(action="propose")},
}


def running(defs):
    """Returns the names of what runs without a click of a user."""
    statuses = (dg.DefaultSensorStatus.RUNNING, dg.DefaultScheduleStatus.RUNNING)
    return {one.name for one in (*defs.sensors, *defs.schedules) if one.default_status in statuses}


def automated(defs):
    graph = defs.resolve_asset_graph()
    return {key for key in graph.get_all_asset_keys() if graph.get(key).automation_condition is not None}


def test_without_policies_only_the_reporters_run(stream):
    defs = build_stream_definitions("flights", stream.state_store)
    assert running(defs) == REPORTERS
    assert automated(defs) == set()


@pytest.mark.parametrize("name", ASKED)
def test_each_policy_starts_what_it_asks_for_and_nothing_else(stream, name):
    defs = build_stream_definitions("flights", stream.state_store, StreamPolicies(**ASKED[name]))
    assert running(defs) == REPORTERS | {name}


def test_what_was_not_asked_for_can_be_switched_on_in_the_ui(stream):
    sensor = build_stream_definitions("flights", stream.state_store).resolve_sensor_def("flights_engine_savepoints")
    assert sensor.default_status == dg.DefaultSensorStatus.STOPPED


def test_the_code_location_of_the_project_asks_for_all_that_lakestate_up_shows():
    from lakestate.definitions import defs

    assert {
        *(f"{job}_{name}" for job in ("flights", "orders") for name in ("checkpoints", "health", "engine_savepoints")),
        *(f"{job}_savepoint_triggers" for job in ("flights", "orders")),
        *("orders_savepoints", "orders_retention", "orders_compaction", "orders_rescale"),
    } <= running(defs)
    from lakestate.definitions import DEFAULT_POLICIES, POLICIES

    assert all(policies.restart is not None for policies in (DEFAULT_POLICIES, *POLICIES.values()))


def test_partitions_of_restored_state_stay_within_what_dagster_recommends():
    assert MOST_PARTITIONS * RANGES == 100_000
    SavepointPolicy(max_partitions=MOST_PARTITIONS)
    with pytest.raises(JobDefinitionError, match="max_partitions is 6,251") as refused:
        SavepointPolicy(max_partitions=MOST_PARTITIONS + 1)
    assert "6,250 or less" in refused.value.action


def test_restored_state_has_16_partitions_for_each_savepoint(instance):
    names = [f"savepoint-{number}" for number in range(MOST_PARTITIONS)]
    instance.add_dynamic_partitions("flights_savepoints", names)
    keys = restore_partitions("flights").get_partition_keys(dynamic_partitions_store=instance)
    assert len(keys) == 100_000


def test_a_restart_strategy_is_named_in_the_description(stream):
    described = [
        build_stream_definitions("flights", stream.state_store, StreamPolicies(restart=restart))
        .resolve_sensor_def("flights_health")
        .description
        for restart in (None, ExponentialDelay())
    ]
    assert "changes nothing" in described[0]
    assert "exponential-delay" in described[1]


def test_every_description_says_what_a_click_does(stream):
    graph = build_stream_definitions("flights", stream.state_store).resolve_asset_graph()
    described = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
    assert {"flights/checkpoint", "flights/savepoint", "flights/restored_state"} <= set(described)
    for name, node in described.items():
        says = "**Materialize**" if node.is_executable else "cannot be materialised"
        assert says in (node.description or ""), name
