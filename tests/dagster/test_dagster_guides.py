"""The code of the pages in docs/guides/dagster runs as it is written there."""

import dataclasses
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from lakestate.assets import build_savepoint_asset
from lakestate.dagster import StreamJobComponent, StreamRootComponent
from lakestate.operate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.policies import RescalePolicy, SavepointPolicy, StreamPolicies, StreamRetention
from lakestate.stream_definitions import build_stream_definitions
from state_engine.inspect import read_state

GUIDES = Path(__file__).parents[2] / "docs" / "guides" / "dagster"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
    pytest.mark.filterwarnings("ignore:.* is currently in (beta|preview)"),
]


def blocks(page, language):
    return [text for kind, text in FENCE.findall((GUIDES / page).read_text()) if kind == language]


def code_of(page):
    """Runs all Python of a page as one module; returns its names."""
    names = {"__name__": "page", "__file__": str(GUIDES / page)}
    exec(compile("\n\n".join(blocks(page, "python")), page, "exec", dont_inherit=True), names)
    return names


def documented(page):
    """Returns the names in the first column of the first table whose header begins with `attribute`."""
    table = (GUIDES / page).read_text().split("| attribute |", 1)[1].split("\n\n", 1)[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize(
    ("page", "component"),
    [("yaml-reference.md", StreamJobComponent), ("all-streams-of-a-root.md", StreamRootComponent)],
)
def test_every_attribute_of_a_component_is_documented(page, component):
    assert documented(page) == set(component.get_model_cls().model_fields)
    assert documented(page) == {one.name for one in dataclasses.fields(component)}


@pytest.mark.parametrize("page", sorted(path.name for path in GUIDES.glob("*.md")))
def test_every_yaml_of_the_pages_loads(page, monkeypatch, tmp_path):
    monkeypatch.setenv("LAKESTATE_ROOT", str(tmp_path))
    for text in blocks(page, "yaml"):
        with create_defs_folder_sandbox() as sandbox:
            folder = sandbox.defs_folder_path / "stream"
            folder.mkdir()
            (folder / "defs.yaml").write_text(text)
            with sandbox.load_component_and_build_defs(folder) as (_, defs):
                dg.Definitions.validate_loadable(defs)


def test_the_scaffolded_file_is_the_one_of_the_page():
    (shown,) = blocks("scaffold.md", "yaml")
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(StreamJobComponent, "flights", scaffold_params={"job": "flights"})
        written = yaml.safe_load((folder / "defs.yaml").read_text())
    assert written["attributes"] == yaml.safe_load(shown)["attributes"]


def test_asset_keys_are_those_of_the_comments():
    names = code_of("asset-keys.md")
    source = "\n".join(blocks("asset-keys.md", "python"))
    calls = re.findall(r"^(asset_key_for_\w+\(.*\))  # (\S+?)[:,]?(?:\s|$)", source, re.MULTILINE)
    shown = {call: comment for call, comment in calls if "/" in comment}
    assert len(shown) >= 6
    for call, comment in shown.items():
        assert eval(call, names).to_user_string() == comment


def test_an_asset_beside_a_component_finds_its_translation(tmp_path):
    attributes = {"job": "flights", "root": str(tmp_path), "translation": {"key_prefix": "eu"}}
    imports, _, downstream = blocks("asset-keys.md", "python")
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "flights"
        folder.mkdir()
        (folder / "defs.yaml").write_text(
            yaml.safe_dump({"type": "lakestate.dagster.StreamJobComponent", "attributes": attributes})
        )
        (sandbox.defs_folder_path / "downstream.py").write_text(f"import dagster as dg\n{imports}\n{downstream}")
        with sandbox.build_all_defs() as defs:
            graph = defs.resolve_asset_graph()
    assert graph.get(dg.AssetKey("busiest_aircraft")).parent_keys == {
        dg.AssetKey(["eu", "flights", "states", "aircraft.legs"])
    }


def test_the_translations_of_the_page_hold():
    names = code_of("translation.md")
    graph = names["defs"].resolve_asset_graph()
    assert {key.path[0] for key in graph.get_all_asset_keys()} == {"eu"}
    owned = names["OwnedStream"](job="flights", root="/srv/streams")
    graph = owned.build_defs(dg.ComponentTree.for_test().load_context).resolve_asset_graph()
    assert list(graph.get(dg.AssetKey(["flights", "savepoint"])).owners) == ["team:on-duty"]
    assert not graph.get(dg.AssetKey(["flights", "checkpoint"])).owners


def report(stream, instance, cursor=None):
    """Evaluates the reporter of checkpoints as the daemon does."""
    context = dg.build_sensor_context(instance, cursor=cursor, resources=stream.sensor_resources)
    result = build_checkpoint_sensor("flights")(context)
    for event in result.asset_events:
        instance.report_runless_asset_event(event)
    return result.cursor


def test_a_table_is_refreshed_when_the_state_has_a_newer_checkpoint_and_only_then(stream, instance):
    table = code_of("automation.md")["legs_of_aircraft"]
    defs = dg.Definitions(assets=[table], resources=stream.sensor_resources)
    key, cursor = dg.AssetKey("legs_of_aircraft"), None

    def requested():
        nonlocal cursor
        result = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
        cursor = result.cursor
        return result.get_num_requested(key)

    def refresh():
        done = dg.materialize([table], instance=instance, resources=stream.sensor_resources)
        (event,) = done.get_asset_materialization_events()
        return event.materialization.metadata["dagster/row_count"].value

    requested()  # the first evaluation only remembers what there is
    stream.checkpoints(1, 1)
    reported = report(stream, instance)
    assert requested() == 1
    assert refresh() == 20
    assert requested() == 0
    stream.grow(5, checkpoint_id=2)
    report(stream, instance, reported)
    assert requested() == 1
    assert refresh() == 25


def test_each_savepoint_gets_a_downstream_partition_of_its_own(stream, instance):
    downstream = code_of("automation.md")["aircraft_at_savepoint"]
    defs = dg.Definitions(
        assets=[build_savepoint_asset("flights"), downstream],
        resources=stream.resources,
    )
    dg.evaluate_automation_conditions(defs, instance)
    stream.checkpoints(1, 1)
    cursor = dg.evaluate_automation_conditions(defs, instance).cursor
    instance.add_dynamic_partitions("flights_savepoints", ["first"])
    savepoint = build_savepoint_asset("flights")
    dg.materialize([savepoint], instance=instance, partition_key="first", resources=stream.resources)
    result = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
    assert result.get_requested_partitions(downstream.key) == {"first"}
    stream.grow(5, checkpoint_id=2)
    done = dg.materialize([downstream], instance=instance, partition_key="first", resources=stream.sensor_resources)
    (event,) = done.get_asset_materialization_events()
    assert event.materialization.metadata["dagster/row_count"].value == 20  # not the 25 of the stream by now


def test_each_failure_of_a_driver_is_one_message(instance, capsys):
    sensor = code_of("alerts.md")["flights_alerts"]

    def observe(health):
        metadata = {"health": health, "reason": "No restart strategy is set."}
        instance.report_runless_asset_event(
            dg.AssetObservation(["flights", "checkpoint"], description=f"The driver: {health}.", metadata=metadata)
        )

    def messages(cursor):
        result = sensor(dg.build_sensor_context(instance, cursor=cursor))
        return result.cursor, capsys.readouterr().out.splitlines()

    cursor, said = messages(None)
    assert said == []
    observe("failed")
    observe("restarted")
    observe("hangs")
    cursor, said = messages(cursor)
    assert said == [
        "The driver: failed. No restart strategy is set.",
        "The driver: hangs. No restart strategy is set.",
    ]
    assert messages(cursor) == (cursor, [])


def test_a_run_that_fails_is_a_message(instance, capsys):
    @dg.op
    def broken():
        raise ValueError("The disk is full.")

    @dg.job(tags={"lakestate/job": "flights"})
    def restore():
        broken()

    result = restore.execute_in_process(instance=instance, raise_on_error=False)
    context = dg.build_run_status_sensor_context(
        "failed_runs", result.get_run_failure_event(), instance, result.dagster_run
    )
    code_of("alerts.md")["failed_runs"](context.for_run_failure())
    assert capsys.readouterr().out.startswith("flights: ")


# Dagster's own session of Pipes calls what Dagster has deprecated.
@pytest.mark.filterwarnings("ignore:.*run_id is deprecated")
def test_a_program_of_its_own_reads_the_state_and_its_report_is_recorded(stream, instance, tmp_path):
    program, asset = blocks("pipes.md", "python")
    (tmp_path / "report.py").write_text(program)
    names = {"__name__": "page", "__file__": str(tmp_path / "assets.py")}
    exec(compile(asset, "pipes.md", "exec", dont_inherit=True), names)
    resources = {"pipes": dg.PipesSubprocessClient(), "state_store": stream.state_store}
    refused = dg.materialize([names["report"]], instance=instance, resources=resources, raise_on_error=False)
    assert not refused.success  # no checkpoint yet
    stream.checkpoints(1, 1)
    stream.grow(5, checkpoint_id=2)
    done = dg.materialize([names["report"]], instance=instance, resources=resources)
    (event,) = done.get_asset_materialization_events()
    assert event.materialization.metadata["aircraft"].value == 25
    assert event.materialization.tags["dagster/data_version"] == "checkpoint:2"


def test_the_tests_of_the_page_pass(tmp_path):
    (tmp_path / "test_project.py").write_text("\n\n".join(blocks("testing.md", "python")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_project.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("is_branch", [True, False])
def test_a_branch_changes_nothing(is_branch, monkeypatch, tmp_path):
    monkeypatch.setenv("LAKESTATE_ROOT", str(tmp_path))
    monkeypatch.setenv("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT", "1" if is_branch else "0")
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "flights"
        folder.mkdir()
        (folder / "component.py").write_text("\n\n".join(blocks("branch-deployments.md", "python")))
        with sandbox.build_all_defs() as defs:
            running = {
                one.name
                for one in (*defs.sensors, *defs.schedules)
                if one.default_status in (dg.DefaultSensorStatus.RUNNING, dg.DefaultScheduleStatus.RUNNING)
            }
            health = defs.resolve_sensor_def("flights_health").description
    reporters = {"flights_checkpoints", "flights_health"}
    assert running == (reporters if is_branch else reporters | {"flights_savepoints", "flights_engine_savepoints"})
    assert ("changes nothing" in health) is is_branch


def test_the_commands_of_the_page_move_production_state_to_the_root_of_a_branch(stream, tmp_path):
    stream.checkpoints(1, 1)
    (commands,) = [text for text in blocks("branch-deployments.md", "sh") if "lakestate restore" in text]
    exchange = tmp_path / "exchange"
    for command in commands.splitlines():
        places = {
            "/srv/streams": stream.state_store.root,
            "/srv/branch": tmp_path / "branch",
            "/srv/exchange": exchange,
        }
        for place, folder in places.items():
            command = command.replace(place, str(folder))
        if "<savepoint id>" in command:
            (taken,) = exchange.iterdir()
            command = command.replace("<savepoint id>", taken.name)
        program, *arguments = shlex.split(command)
        done = subprocess.run(
            [str(Path(sys.executable).with_name(program)), *arguments], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert read_state(str(tmp_path / "branch"), "flights", "aircraft", "legs").num_rows == 20


def test_the_table_of_what_runs_names_every_sensor_and_schedule(stream):
    policies = StreamPolicies(
        savepoints=SavepointPolicy(cron="0 3 * * *", every_n_checkpoints=1),
        retention=StreamRetention(cron="0 4 * * *", compaction_cron="0 5 * * *"),
        rescale=RescalePolicy(action="act"),
    )
    defs = build_stream_definitions("flights", stream.state_store, policies)
    rows = [line.split("|")[1] for line in (GUIDES / "what-runs.md").read_text().splitlines() if "`<job>_" in line]
    named = {name for row in rows for name in re.findall(r"`<job>(_\w+)`", row)}
    assert named == {one.name.removeprefix("flights") for one in (*defs.sensors, *defs.schedules)}
