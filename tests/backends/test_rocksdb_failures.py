"""A database fails while a function runs: the epoch fails by name, whatever the function does with the error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.api.output_tag import columns_type
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
from state_engine.errors import LocalStateError
from state_engine.runtime.operators import operator_of
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.column import Column

COLUMNS = columns_type("k string", "input")


class Count(KeyedProcessFunction):
    """Counts; `careless`: whether it ignores errors of its state."""

    def __init__(self, careless: bool) -> None:
        self.careless = careless

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        try:
            self.count.update((self.count.value() or 0) + 1)
        except Exception:
            if not self.careless:
                raise
            self.count.update(1)
        return None


@pytest.fixture
def database(tmp_path: Path) -> Iterator[LocalDatabase]:
    made = LocalDatabase(tmp_path / "range", Tuning())
    yield made
    made.close()


@pytest.mark.parametrize("careless", [False, True])
def test_a_function_cannot_go_on_with_less_state_than_there_is(database: LocalDatabase, careless: bool) -> None:
    spec = OperatorSpec(
        "count",
        "keyed_process",
        Count(careless),
        COLUMNS,
        (Column(name="k", type="string"),),
        (),
        COLUMNS,
        max_parallelism=13,
    )
    operator = operator_of(spec, 0, 1, lambda *args: RocksDBKeyedStateBackend(*args, database))
    backend: Any = operator.backend
    backend.start("t0")
    backend.attach([], lambda _: ())
    operator.open()
    batch = pa.record_batch({"k": pa.array(["a", "b", "a"])})
    operator.begin(0, None, 0)
    operator.process(batch)
    backend.freeze(0)
    backend.settle()
    backend.commit("t1")
    database.store._db.close()  # has the effect of a failing disk

    def epoch() -> None:
        operator.process(batch)
        backend.freeze(0)

    with pytest.raises(LocalStateError, match="cannot be used"):
        epoch()
    database.close()
    assert not (database.folder / "0").exists(), "the failed database is not kept"
