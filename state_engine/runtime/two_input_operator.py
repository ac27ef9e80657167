"""An operator instance with two inputs; the records of both come in one order, in shared columns."""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import MakeBackend
from state_engine.iterating import whole
from state_engine.runtime.co_adapters import CoAdapter
from state_engine.runtime.emitted import Emitted
from state_engine.runtime.row_operator import RowOperator
from state_engine.runtime.rows_of_input import RowsOfInput
from state_engine.runtime.spec import OperatorSpec
from state_engine.runtime.two_inputs import INPUT, TwoInputs


class TwoInputOperator(RowOperator):
    """As `RowOperator`, for a function with `process_element1` and `process_element2`.

    Args:
        spec: The operator.
        two: Its inputs.
        subtask: Its number.
        parallelism: The operator's parallelism.
        make_backend: Makes its keyed state backend.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        two: TwoInputs,
        subtask: int,
        parallelism: int,
        make_backend: MakeBackend = HeapKeyedStateBackend,
    ) -> None:
        super().__init__(spec, subtask, parallelism, make_backend)
        self._tag = spec.input.names.index(INPUT)
        self._rows = (
            (1, RowsOfInput(two.first, range(len(two.first.names)))),
            (2, RowsOfInput(two.second, two.places)),
        )
        of_adapter = self.function.verb if isinstance(self.function, CoAdapter) else None
        self._calls = tuple(f"{of_adapter or 'process_element'}{n}" for n in (1, 2))

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        arrays = batch.columns
        keys: Iterable[Any] = repeat(None)
        if self.backend is not None:
            key_list = self._keys({n: self._read_columns[n](arrays[n]) for n in self._key_positions})
            self.backend.prefetch(key_list)
            keys = key_list
        tags: Any = arrays[self._tag]
        times: Iterable[int | None] = arrays[-1].to_pylist() if len(arrays) > len(self._read_columns) else repeat(None)
        first, second = (rows.of(batch.filter(pc.equal(tags, pa.scalar(n, tags.type)))) for n, rows in self._rows)
        emitted = self._emitted()
        self._two_input_loop(keys, times, tags.to_pylist(), first, second, emitted)
        return self._outputs(emitted)

    def _two_input_loop(
        self,
        keys: Iterable[Any],
        times: Iterable[int | None],
        tags: list[int],
        first: Iterator[Any],
        second: Iterator[Any],
        emitted: Emitted,
    ) -> None:
        process1, process2 = self.function.process_element1, self.function.process_element2
        record, context, time = self._record, self.context, self.time
        key: Any = None
        row: Any = None
        tag = 1
        try:
            for tag, key, timestamp in zip(tags, keys, times, strict=False):
                context.entry = key
                time.timestamp = timestamp
                if tag == 1:
                    row = next(first)
                    result = process1(row, record)
                else:
                    row = next(second)
                    result = process2(row, record)
                if result is not None:
                    emitted.add(whole(result), timestamp)
        except BaseException as error:
            raise self._failed(error, f"{self._calls[tag - 1]}() raised", key, row) from error


__all__ = ["TwoInputOperator"]
