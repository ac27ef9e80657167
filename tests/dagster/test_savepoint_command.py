"""`lakestate dagster savepoint`: it adds a partition, and a run of this process takes and records the savepoint."""

import json

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from typer.testing import CliRunner

from lakestate.assets import savepoint_key
from lakestate.assets.names import JOB_TAG
from lakestate.cli import app
from state_engine.savepoint import list_savepoints

DEFINITIONS = """
from lakestate.resources import StateStoreResource
from lakestate.stream_definitions import build_stream_definitions

defs = build_stream_definitions("flights", StateStoreResource(root={root!r}))
"""


@pytest.fixture
def project(stream, tmp_path, monkeypatch):
    """A project's folder with definitions of a stopped job and an instance on disk; it is the current folder."""
    (tmp_path / "location.py").write_text(DEFINITIONS.format(root=stream.state_store.root))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def savepoint(*arguments, job="flights"):
    return CliRunner().invoke(app, ["dagster", "savepoint", job, "--label", "before-upgrade", *arguments])


def error_of(result, code):
    assert result.exit_code == code, result.output
    return result.stderr


def test_one_command_adds_the_partition_and_materialises_it(project, stream):
    stream.checkpoints(1, 1)
    done = savepoint("-f", "location.py", "--note", "by hand", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (pin,) = list_savepoints(stream.state_store.root, "flights")
    assert (pin.label, pin.note, pin.trigger) == ("before-upgrade", "by hand", "dagster")
    assert told["metadata"]["savepoint_id"] == pin.savepoint_id
    with dg.DagsterInstance.get() as instance:
        assert instance.get_dynamic_partitions("flights_savepoints") == ["before-upgrade"]
        (record,) = instance.fetch_materializations(savepoint_key("flights"), limit=5).records
        assert record.partition_key == "before-upgrade"
        run = instance.get_run_by_id(told["run_id"])
        assert run.status == dg.DagsterRunStatus.SUCCESS
        assert run.tags[JOB_TAG] == "flights"


def test_a_partition_that_exists_is_validated_and_no_second_savepoint_is_taken(project, stream):
    stream.checkpoints(1, 1)
    first, second = savepoint("-f", "location.py"), savepoint("-f", "location.py")
    assert first.exit_code == second.exit_code == 0, first.output + second.output
    (pin,) = list_savepoints(stream.state_store.root, "flights")
    assert f"before-upgrade: savepoint {pin.savepoint_id} taken: native, epoch 1/2" in first.stdout
    assert f"savepoint {pin.savepoint_id} existed, and was validated" in second.stdout


@pytest.mark.long  # other tests of this file take one in this process
def test_a_code_location_with_an_executor_of_processes_takes_one_too(project, stream):
    """A component's steps run in the executor of its code location; Dagster's default starts a process for each."""
    stream.checkpoints(1, 1)
    text = DEFINITIONS.format(root=stream.state_store.root)
    (project / "location.py").write_text(text.replace("))\n", "), executor=None)\n"))
    done = savepoint("-f", "location.py")
    assert done.exit_code == 0, done.output
    assert len(list_savepoints(stream.state_store.root, "flights")) == 1


def test_the_workspace_of_the_folder_is_the_code_location_unless_one_is_named(project, stream):
    stream.checkpoints(1, 1)
    (project / "workspace.yaml").write_text("load_from: [{python_file: location.py}]\n")
    assert savepoint().exit_code == 0
    assert len(list_savepoints(stream.state_store.root, "flights")) == 1


def test_what_a_run_warns_of_is_printed(project, stream):
    stream.checkpoints(1, 1)
    assert savepoint("-f", "location.py").exit_code == 0
    arguments = ["dagster", "savepoint", "flights", "--label", "another", "-f", "location.py"]
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 0
    assert "Warning: " in again.stderr
    assert "It is taken nevertheless" in again.stderr


def test_a_run_that_fails_says_why_and_what_to_do(project, stream):
    error = error_of(savepoint("-f", "location.py"), 1)
    assert "SavepointRunError: Run " in error
    assert "for savepoint 'before-upgrade' failed: " in error
    assert "What to do: " in error
    assert "Traceback" not in error
    assert "Stack Trace" not in error


def test_a_run_beside_another_one_of_the_stream_is_refused(project, stream):
    stream.checkpoints(1, 1)
    with dg.DagsterInstance.get() as instance:
        other = create_run_for_test(
            instance, status=dg.DagsterRunStatus.STARTED, asset_selection={dg.AssetKey(["flights", "retention"])}
        )
        error = error_of(savepoint("-f", "location.py"), 1)
        assert f"Run {other.run_id} is at work on flights" in error
        assert instance.get_dynamic_partitions("flights_savepoints") == []
        instance.delete_run(other.run_id)
        create_run_for_test(
            instance, status=dg.DagsterRunStatus.STARTED, asset_selection={dg.AssetKey(["orders", "retention"])}
        )
    assert savepoint("-f", "location.py").exit_code == 0, "a run of another stream"


@pytest.mark.parametrize(
    ("arguments", "job", "said"),
    [
        (["-f", "location.py"], "flight", "no savepoints of a job 'flight'. What to do: Its jobs are flights."),
        (["-f", "nowhere.py"], "flights", "What to do: Name it with -m MODULE or -f FILE"),
        (["-m", "lakestate.nowhere"], "flights", "No module named 'lakestate.nowhere'"),
        (["-f", "broken.py"], "flights", "cannot be loaded: broken on purpose"),
        (["-w", "servers.yaml"], "flights", "The workspace has only code servers"),
        ([], "flights", "There is no code location"),
        (["-f", "location.py", "-m", "lakestate.definitions"], "flights", "Give only one of"),
    ],
)
def test_a_code_location_that_cannot_be_used_is_named(project, arguments, job, said):
    (project / "broken.py").write_text("raise RuntimeError('broken on purpose')\n")
    (project / "servers.yaml").write_text("load_from: [{grpc_server: {host: 127.0.0.1, port: 1}}]\n")
    error = error_of(savepoint(*arguments, job=job), 2)
    assert said in " ".join(error.replace("│", "").split())


@pytest.mark.parametrize("label", ["", " ", "a|b"])
def test_a_label_that_cannot_be_a_partition_is_refused_at_once(project, label):
    arguments = ["dagster", "savepoint", "flights", "--label", label, "-f", "location.py"]
    assert "Give a name without" in error_of(CliRunner().invoke(app, arguments), 2)


@pytest.mark.parametrize("home", [None, "/nowhere/at/all"])
def test_without_an_instance_nothing_is_taken(project, stream, monkeypatch, home):
    stream.checkpoints(1, 1)
    monkeypatch.delenv("DAGSTER_HOME")
    if home is not None:
        monkeypatch.setenv("DAGSTER_HOME", home)
    assert "Set DAGSTER_HOME" in error_of(savepoint("-f", "location.py"), 2)
    assert list_savepoints(stream.state_store.root, "flights") == []


def test_without_dagster_the_package_to_install_is_named(project, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    error = error_of(savepoint("-f", "location.py"), 1)
    assert error.startswith("MissingExtraError: The package dagster is not installed.")
    assert "pip install 'lakestate[dagster]'" in error
