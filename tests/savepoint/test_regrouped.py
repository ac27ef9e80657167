"""Operator state at another number of key groups: every subtask's list stays in a key group that a start reads."""

import pyarrow as pa
import pytest

from state_engine.api import ListStateDescriptor, Types
from state_engine.backends.schemas import operator_schema
from state_engine.log.ops import KEY_GROUP, NAMESPACE, OP, POSITION, SEQ, VALUE, Op, log_schema
from state_engine.savepoint.rekey import regrouped
from state_engine.serialization.types import ddl_to_arrow

SUBTASKS = 5
SCHEMA = operator_schema("op", ListStateDescriptor("offsets", Types.LONG()))


@pytest.mark.parametrize("max_parallelism", range(1, SUBTASKS + 2))
def test_every_element_stays_in_its_order_and_within_the_key_groups(max_parallelism: int) -> None:
    target = log_schema(SCHEMA, ddl_to_arrow, position=True)
    rows_before = [
        {KEY_GROUP: subtask, NAMESPACE: str(SUBTASKS), VALUE: 10 * subtask + n, OP: Op.APPEND, POSITION: 1, SEQ: n}
        for subtask in range(SUBTASKS)
        for n in range(2)
    ]
    rows = regrouped(SCHEMA, pa.Table.from_pylist(rows_before, target), max_parallelism).to_pylist()
    rows.sort(key=lambda row: (row[KEY_GROUP], row[POSITION], row[SEQ]))
    assert [row[VALUE] for row in rows] == [row[VALUE] for row in rows_before]
    assert all(row[KEY_GROUP] < max_parallelism for row in rows)
