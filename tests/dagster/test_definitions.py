"""What a code location contains, and that loading it starts no JVM."""

import os
import shutil
import subprocess
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.instance import InstanceRef
from dagster._core.instance.config import dagster_instance_config

from lakestate.policies import StreamPolicies
from lakestate.resources import StateStoreResource
from lakestate.stream_definitions import build_stream_definitions
from state_engine.errors import JobDefinitionError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def state_store(tmp_path):
    return StateStoreResource(root=str(tmp_path))


def test_the_code_location_shows_the_demonstration():
    from lakestate.definitions import defs

    dg.Definitions.validate_loadable(defs)
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert {"flights/checkpoint", "flights/savepoint"} <= keys
    assert defs.resolve_sensor_def("flights_checkpoints").default_status == dg.DefaultSensorStatus.RUNNING


def test_an_example_that_needs_more_is_shown_once_it_has_a_folder(tmp_path, monkeypatch):
    from lakestate.definitions import load_definitions

    monkeypatch.setenv("LAKESTATE_ROOT", str(tmp_path))
    visits = dg.AssetKey(["visits", "checkpoint"])
    assert visits not in load_definitions().resolve_asset_graph().get_all_asset_keys()
    (tmp_path / "visits").mkdir()
    assert visits in load_definitions().resolve_asset_graph().get_all_asset_keys()


def test_each_job_is_operated_by_its_own_policies():
    from lakestate.definitions import POLICIES

    assert {"flights", "orders", "visits"} <= POLICIES.keys()
    assert len({repr(policies) for policies in POLICIES.values()}) == len(POLICIES)


def test_a_checkpoint_cannot_be_materialised_and_a_savepoint_can(state_store):
    graph = build_stream_definitions("flights", state_store).resolve_asset_graph()
    checkpoint, savepoint = (graph.get(dg.AssetKey(["flights", name])) for name in ("checkpoint", "savepoint"))
    assert not checkpoint.is_executable
    assert savepoint.is_executable
    assert savepoint.partitions_def == dg.DynamicPartitionsDefinition(name="flights_savepoints")
    assert savepoint.pools == {"stream_flights"}
    assert checkpoint.group_name == savepoint.group_name == "flights"
    assert checkpoint.kinds == savepoint.kinds == {"spark", "deltalake"}


def test_freshness_is_the_streams_own(state_store):
    policies = [
        build_stream_definitions("flights", state_store, StreamPolicies(fresh_within=within))
        .resolve_asset_graph()
        .get(dg.AssetKey(["flights", "checkpoint"]))
        .freshness_policy
        for within in (None, timedelta(minutes=5))
    ]
    assert policies == [None, dg.FreshnessPolicy.time_window(fail_window=timedelta(minutes=5))]


def test_streams_share_a_code_location(state_store):
    names = ("flights", "orders-2.eu")
    defs = dg.Definitions.merge(*(build_stream_definitions(name, state_store) for name in names))
    dg.Definitions.validate_loadable(defs)
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert "orders-2.eu/savepoint" in keys


def test_a_name_that_no_job_can_have_is_refused(state_store):
    with pytest.raises(JobDefinitionError):
        build_stream_definitions("../flights", state_store)


def test_loading_the_code_location_starts_no_jvm_and_waits_for_no_pandas(tmp_path):
    code = (
        "import sys, lakestate.definitions\n"
        "loaded = {name.split('.')[0] for name in sys.modules} & {'pyspark', 'py4j', 'delta', 'pandas'}\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.mark.slow
def test_dagster_validates_the_code_location_from_the_root(tmp_path):
    command = [str(Path(sys.executable).with_name("dagster")), "definitions", "validate"]
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    for name in ("workspace.yaml", "dagster.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "All code locations passed validation" in said
    assert "deprecat" not in said.lower()


def test_the_workspace_names_the_code_location():
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    (location,) = workspace["load_from"]
    assert location["python_module"]["module_name"] == "lakestate.definitions"


def test_the_instance_loads_and_keeps_its_history(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(tmp_path / "other"), config_dir=str(ROOT))) as instance:
        pools = instance.get_concurrency_config().pool_config
        assert pools.default_pool_limit == 1
        assert pools.pool_granularity is not None
        assert pools.pool_granularity.value == "run"
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled
        assert instance.get_settings("sensors")["use_threads"]
        assert instance.compute_log_manager is not None
        assert instance.file_manager_directory("run").startswith(".dagster_home")
    assert (tmp_path / ".dagster_home" / "storage" / "history").is_dir()


def test_the_instance_on_postgresql_differs_in_its_storage_alone():
    default, postgres = (
        yaml.safe_load((ROOT / name).read_text()) for name in ("dagster.yaml", "deploy/postgres/dagster.yaml")
    )
    assert default.pop("storage").keys() == {"sqlite"}
    (address,) = postgres.pop("storage")["postgres"].values()
    assert {name: where for name, where in address.items() if name != "scheme"} == {
        "hostname": {"env": "DAGSTER_PG_HOST"},
        "port": {"env": "DAGSTER_PG_PORT"},
        "db_name": {"env": "DAGSTER_PG_DB"},
        "username": {"env": "DAGSTER_PG_USERNAME"},
        "password": {"env": "DAGSTER_PG_PASSWORD"},
    }
    assert postgres == default


@pytest.mark.parametrize("folder", [".", "deploy/postgres"])
def test_dagster_knows_every_key_of_the_instance(folder, monkeypatch):
    for name in ("HOST", "PORT", "DB", "USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"DAGSTER_PG_{name}", "5432" if name == "PORT" else "dagster")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config, _ = dagster_instance_config(str(ROOT / folder))
    given = yaml.safe_load((ROOT / folder / "dagster.yaml").read_text())
    assert given.keys() <= config.keys()
