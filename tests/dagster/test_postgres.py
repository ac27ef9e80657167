"""Dagster with PostgreSQL for its storage, as `deploy/postgres` sets it up, beside a stream that runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import psycopg2
import pytest
import yaml
from live_dagster import ROOT, LiveDagster
from live_stream import LiveStream
from postgres_programs import needed_programs

from lakestate.assets import build_savepoint_asset
from lakestate.assets.ranges import range_name
from lakestate.init.project import create_project
from lakestate.operate.checkpoint_sensor import build_checkpoint_sensor
from state_engine.testing.postgres_server import DATABASE, PASSWORD, USER, postgres_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SETTINGS = ROOT / "deploy" / "postgres" / "dagster.yaml"


@pytest.fixture
def postgres():
    """The variables of an empty database, as `deploy/postgres/dagster.yaml` uses them."""
    with postgres_server(needed_programs()) as server:
        yield {
            "DAGSTER_PG_HOST": "127.0.0.1",
            "DAGSTER_PG_PORT": str(server.port),
            "DAGSTER_PG_DB": DATABASE,
            "DAGSTER_PG_USERNAME": USER,
            "DAGSTER_PG_PASSWORD": PASSWORD,
        }


def counts(postgres):
    """Returns how many runs, events and ticks the database holds."""
    connection = psycopg2.connect(
        host=postgres["DAGSTER_PG_HOST"], port=postgres["DAGSTER_PG_PORT"], dbname=postgres["DAGSTER_PG_DB"],
        user=postgres["DAGSTER_PG_USERNAME"], password=postgres["DAGSTER_PG_PASSWORD"],
    )  # fmt: skip
    with connection, connection.cursor() as cursor:
        numbers = {}
        for table in ("runs", "event_logs", "job_ticks"):
            cursor.execute(f"SELECT count(*) FROM {table}")
            ((numbers[table],),) = cursor.fetchall()
    connection.close()
    return numbers


@pytest.mark.long
def test_the_code_location_is_valid_with_it(postgres, tmp_path):
    (tmp_path / "home").mkdir()
    shutil.copy(SETTINGS, tmp_path / "home")
    environment = os.environ | postgres | {"DAGSTER_HOME": str(tmp_path / "home"), "LAKESTATE_ROOT": str(tmp_path)}
    command = [Path(sys.executable).with_name("dagster"), "definitions", "validate", "-w", ROOT / "workspace.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation successful" in done.stdout + done.stderr


def test_the_settings_of_a_new_project_open_the_server(postgres, tmp_path, monkeypatch):
    create_project(tmp_path / "shop")
    home = tmp_path / "shop" / "postgres"
    settings = yaml.safe_load((home / "dagster.yaml").read_text())
    database = settings["storage"]["postgres"]["postgres_db"]
    database.update(port=int(postgres["DAGSTER_PG_PORT"]), db_name=DATABASE, username=USER)  # of this server
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", postgres["DAGSTER_PG_PASSWORD"])
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("clicks"))
    assert counts(postgres) == {"runs": 0, "event_logs": 1, "job_ticks": 0}


def test_runs_and_events_of_an_instance_are_kept_there(postgres, tmp_path, new_stream, monkeypatch):
    for name, value in postgres.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "home").mkdir()
    shutil.copy(SETTINGS, tmp_path / "home" / "dagster.yaml")
    monkeypatch.chdir(tmp_path / "home")
    stream = new_stream(tmp_path / "state")
    stream.checkpoints(1, 2)
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        with dg.build_sensor_context(instance, resources=stream.sensor_resources) as context:
            for event in build_checkpoint_sensor("flights")(context).asset_events:
                instance.report_runless_asset_event(event)
        instance.add_dynamic_partitions("flights_savepoints", ["nightly"])
        assets = [build_savepoint_asset("flights")]
        assert dg.materialize(assets, instance=instance, partition_key="nightly", resources=stream.resources).success
        assert instance.get_latest_materialization_event(dg.AssetKey(["flights", "checkpoint"])) is not None
    numbers = counts(postgres)
    assert numbers["runs"] == 1
    assert numbers["event_logs"] > 10
    assert not list(tmp_path.rglob("*.db")), "nothing of it is in files"


@pytest.mark.spark
@pytest.mark.long
def test_checkpoints_savepoint_and_restore_are_kept_there(postgres, tmp_path, monkeypatch):
    with LiveDagster(tmp_path, settings=SETTINGS, environment=postgres) as live:
        monkeypatch.setenv("PYTHONPATH", live.environment["PYTHONPATH"])
        client, job = live.client, "tide"
        live.declare(job)
        with LiveStream(live.root, job) as stream:
            stream.feed(2).start().wait_until_read()
            reported = client.wait_for(lambda: client.materializations(f"{job}/checkpoint"), "the checkpoint sensor")
            assert reported[0]["metadata"]["checkpoint_id"] >= 1
            client.add_partition(f"{job}_savepoints", "nightly")
            client.wait_for_run(client.launch_run(f"{job}/savepoint", partition="nightly"))
            at_savepoint = stream.newest.epoch
            stream.feed(1).wait_until_read()
            stream.stop()
            partitions = [f"{range_name(index)}|nightly" for index in range(3)]
            client.wait_for_backfill(client.launch_backfill(f"{job}/restored_state", partitions))
            assert stream.newest.epoch > at_savepoint
            events = client.materializations(f"{job}/restored_state")
            assert {event["partition"] for event in events} == set(partitions)
        numbers = counts(postgres)
        assert numbers["runs"] == 2
        assert numbers["event_logs"] > 20
        assert numbers["job_ticks"] > 0
    assert not list(tmp_path.rglob("*.db")), "nothing of it is in files"
