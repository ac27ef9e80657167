"""An operator and its records, without Spark."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api.functions import Function, KeyedProcessFunction
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.runtime.operators import operator_of
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.convert import writer
from state_engine.serialization.rows import write_columns
from state_engine.serialization.types import columns_of, columns_to_arrow

sys.path.insert(0, str(Path(__file__).parent))

INPUT = "k string, n bigint"


def make_spec(function: Function, output: str = "k string, n bigint", **given: Any) -> OperatorSpec:
    """Returns the spec of a function over records of `INPUT`, keyed by `k` if the function takes keys."""
    struct = parse_columns_ddl(given.pop("input", INPUT))
    keyed = isinstance(function, KeyedProcessFunction)
    names = given.pop("key", ["k"] if keyed else [])
    key = tuple(c for name in names for c in columns_of(struct) if c.name == name)
    side = {tag: parse_columns_ddl(ddl) for tag, ddl in given.pop("side_outputs", {}).items()}
    return OperatorSpec(
        uid="op",
        kind="keyed_process" if keyed else "process",
        function=function,
        input=struct,
        key=key,
        order_by=(),
        output=parse_columns_ddl(output),
        side_outputs=side,
        max_parallelism=13,
        **given,
    )


class Running:
    """An open operator in its first epoch."""

    def __init__(self, spec: OperatorSpec) -> None:
        self.spec = spec
        self.operator = operator_of(spec, 0, 1)
        self.operator.open()
        self.operator.begin(processing_time=5_000, watermark=None, attempt=2)

    def feed(self, *records: tuple[Any, ...]) -> dict[str, list[dict[str, Any]]]:
        """Processes records as one batch; returns the rows of each output."""
        struct = self.spec.input
        arrays = write_columns(records, struct, [writer(t) for t in struct.types])
        schema = columns_to_arrow(columns_of(struct))
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        outputs = self.operator.process(batch)
        return {output: rows.to_pylist() for output, rows in outputs.items()}


@pytest.fixture
def spec() -> Callable[..., OperatorSpec]:
    return make_spec


@pytest.fixture
def run() -> Callable[..., Running]:
    """Opens an operator of a function; keyword arguments are those of the spec."""
    return lambda function, *args, **given: Running(make_spec(function, *args, **given))
