"""Delta tables that need more of a writer than adding finished files are distinguished from the others."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, TableFeatures, write_deltalake
from deltalake.schema import PrimitiveType

from state_engine.storage.delta import ensure_table, open_version
from state_engine.storage.table_log import Obstacle

SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def obstacles(path: str) -> list[Obstacle]:
    return open_version(path).obstacles()


def the_obstacle(path: str) -> str:
    [found] = obstacles(path)
    assert found.remedy
    return found.what


def test_a_table_of_ours_has_no_obstacle(path: str) -> None:
    ensure_table(path, SCHEMA)
    assert obstacles(path) == []


@pytest.mark.parametrize(
    "properties", [{"delta.enableChangeDataFeed": "true"}, {"delta.logRetentionDuration": "interval 1 days"}]
)
def test_what_finished_files_do_not_touch_is_fine(path: str, properties: dict[str, str]) -> None:
    DeltaTable.create(path, SCHEMA, configuration=properties)
    assert obstacles(path) == []


def test_partitions(path: str) -> None:
    write_deltalake(path, pa.table({"n": [1], "k": ["a"], "day": ["d"]}), partition_by=["k", "day"])
    assert the_obstacle(path) == "it is partitioned by 'k', 'day'"


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("delta.columnMapping.mode", "name", "mapped by name"),
        ("delta.appendOnly", "true", "append-only"),
        ("delta.setTransactionRetentionDuration", "interval 7 days", "application transactions"),
    ],
)
def test_properties(path: str, name: str, value: str, what: str) -> None:
    DeltaTable.create(path, SCHEMA, configuration={name: value})
    assert what in the_obstacle(path)


def test_deletion_vectors(path: str) -> None:
    DeltaTable.create(path, SCHEMA, configuration={"delta.enableDeletionVectors": "true"})
    assert obstacles(path)[0].what == "deletion vectors are enabled"


def test_check_constraints(path: str) -> None:
    table = DeltaTable.create(path, SCHEMA)
    table.alter.add_constraint({"positive": "n > 0"})
    assert the_obstacle(path) == "it has CHECK constraints 'positive'"


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        ({"delta.generationExpression": "k"}, "generated columns 'n'"),
        ({"delta.identity.start": 1, "delta.identity.step": 1}, "identity columns 'n'"),
        ({"delta.invariants": '{"expression":{"expression":"n > 1"}}'}, "invariants 'n'"),
        ({"CURRENT_DEFAULT": "3"}, "default values 'n'"),
        ({"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}, "limited length 'n'"),
    ],
)
def test_columns_that_a_writer_has_to_look_at(path: str, metadata: dict[str, Any], what: str) -> None:
    DeltaTable.create(path, Schema([Field("n", PrimitiveType("long"), metadata=metadata)]))
    assert what in the_obstacle(path)


@pytest.mark.parametrize(
    "kind",
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("n", pa.struct([pa.field("a", pa.int64(), nullable=False)])),
        pa.field("n", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        pa.field("n", pa.map_(pa.string(), pa.field("value", pa.struct([pa.field("a", pa.int64(), nullable=False)])))),
    ],
)
def test_columns_that_refuse_null_at_any_depth(path: str, kind: pa.Field) -> None:
    DeltaTable.create(path, pa.schema([kind, ("k", pa.string())]))
    assert the_obstacle(path) == "it has NOT NULL columns 'n'"


@pytest.mark.parametrize("feature", ["RowTracking", "DeletionVectors", "V2Checkpoint", "IcebergCompatV1"])
def test_features_that_are_not_understood(path: str, feature: str) -> None:
    table = DeltaTable.create(path, SCHEMA)
    table.alter.add_feature(getattr(TableFeatures, feature), allow_protocol_versions_increase=True)
    assert feature[0].lower() + feature[1:] in the_obstacle(path)


def test_features_that_nothing_uses_are_fine(path: str) -> None:
    table = DeltaTable.create(path, SCHEMA)
    for feature in ("AppendOnly", "CheckConstraints", "GeneratedColumns", "Invariants", "ColumnMapping"):
        table.alter.add_feature(getattr(TableFeatures, feature), allow_protocol_versions_increase=True)
    assert obstacles(path) == []
