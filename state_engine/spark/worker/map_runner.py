"""Runs a `map` between operators: calls one function record by record, and lets barriers pass."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from state_engine.api.types import StructType
from state_engine.causes import WorkerEndsError, cause_line, sentence, shown, trace_of
from state_engine.errors import UserFunctionError
from state_engine.log.barriers import Barrier
from state_engine.log.records import Ack, Failure
from state_engine.runtime.outputs import OutputValueError, OutputWriter
from state_engine.serialization.convert import Reader, field_readers
from state_engine.serialization.copies import RowCopies
from state_engine.serialization.rows import row_maker
from state_engine.serialization.types import schema_of
from state_engine.spark.wire.failures import reporting_failures
from state_engine.spark.wire.rows import CONTROL, barrier_mark, barrier_of_mark, group_of_mark, is_record
from state_engine.spark.wire.task_spec import travelling


class MapRunner:
    """What `mapInArrow` runs for a `map` step.

    An error that the author's function raises travels as data (`docs/adr/0004-failures-as-data.md`). A map has no ack
    of its own, so the failure is put into the ack of the upstream subtask. The map holds barriers back until the last
    record has passed, so no exchange before the map has to keep them after it.

    Args:
        function: The author's function.
        input_: Columns of the records.
        output: Columns of the rows that the function makes of them.
        ours: Columns of ours that are kept, `CONTROL` last.
        uid: The operator that gives the mapped output, for messages.
        alone: Whether no barriers come with the records; a failure is then raised.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        input_: StructType,
        output: StructType,
        ours: Sequence[str] = (CONTROL,),
        uid: str = "",
        alone: bool = False,  # a worker gives all arguments by position, also this one
    ) -> None:
        self._uid = uid
        self._alone = alone
        self._function = function
        self._input = input_
        self._output = output
        self._ours = tuple(ours)
        self._copies = RowCopies(output)

    def __reduce__(self) -> tuple[object, ...]:
        parts = self._function, self._input, self._output, self._ours, self._uid, self._alone
        return travelling(MapRunner, parts, f"{self._name()} on the output of operator {self._uid!r}")

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with reporting_failures():
            yield from self._run(batches)

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = field_readers(self._input)
        make, writer = row_maker(self._input), OutputWriter("map", self._output)
        failure: _MapFailure | None = None
        held_marks: list[pa.RecordBatch] = []
        for batch in batches:
            records = is_record(batch)
            if records.false_count:
                held_marks.append(batch.filter(pc.invert(records)))
                batch = batch.filter(records)
            if failure is not None or not batch.num_rows:
                continue
            try:
                columns = self._read(readers, batch)
                made = self._of_ours(batch, self._map(map(make, *columns), writer).columns)
            except _MapFailure as error:
                if self._alone:
                    raise error.by_name(self._uid) from error
                failure = error
            else:
                yield made
        for marks in held_marks:
            sent = marks if failure is None else _failed_marks(marks, failure)
            yield self._of_ours(sent, [pa.nulls(sent.num_rows, field.type) for field in schema_of(self._output)])

    def _read(self, readers: Sequence[Reader], batch: pa.RecordBatch) -> list[list[Any]]:
        try:
            return [read(batch.column(n)) for read, n in zip(readers, self._input.names, strict=True)]
        except BaseException as error:  # raised by the author's codecs
            raise self._raised(error, None) from error

    def _map(self, rows: Iterable[Any], writer: OutputWriter) -> pa.RecordBatch:
        function = self._function
        mapped: list[Any] = []
        take = self._copies.into(mapped)
        row: Any = None
        try:
            for row in rows:
                take((function(row),))
        except BaseException as error:
            raise self._raised(error, row) from error
        try:
            return writer.write(mapped)
        except OutputValueError as error:
            raise self._mistyped(error) from error
        except BaseException as error:  # raised by a row's own methods
            raise self._raised(error, None, mapped) from error

    def _raised(self, error: BaseException, row: Any, data: object = None) -> "_MapFailure":
        if isinstance(error, WorkerEndsError):
            raise error
        return _MapFailure(
            kind="user_function",
            message=sentence(f"{self._place()} raised {cause_line(error, row, data)}"),
            action="Fix the function, or drop such records by where() before it. The epoch was not sealed: a restarted "
            "job continues from the end of the epoch before.",
            record=shown(row) if row is not None else "",
            traceback=trace_of(error, None, row, data),
        )

    def _mistyped(self, error: OutputValueError) -> "_MapFailure":
        return _MapFailure(
            kind="output_type",
            message=f"{self._place()} returned a row that is not {self._output.ddl()}: {error}.",
            action="Return rows of the declared type, or change output_type.",
            record=error.row,
        )

    def _place(self) -> str:
        return f"{self._name()} on its output"

    def _name(self) -> str:
        return f"map({getattr(self._function, '__qualname__', type(self._function).__name__)})"

    def _of_ours(self, batch: pa.RecordBatch, columns: Sequence[Any]) -> pa.RecordBatch:
        """Returns columns of the output together with our columns of the same rows in `batch`."""
        schema = pa.schema([*schema_of(self._output), *(batch.schema.field(n) for n in self._ours)])
        return pa.RecordBatch.from_arrays([*columns, *(batch.column(n) for n in self._ours)], schema=schema)


class _MapFailure(Exception):
    """The author's function failed. Only a barrier tells from which subtask its input came."""

    def __init__(self, **what: Any) -> None:
        super().__init__(what["message"])
        self.what = what

    def by_name(self, uid: str) -> UserFunctionError:
        """Returns the failure as an error that a task may raise."""
        record = f" Record: {self.what['record']}." if self.what["record"] else ""
        message = f"Operator {uid!r}: {self.what['message']}{record}"
        return UserFunctionError(message, action=self.what["action"], operator=uid)

    def of(self, barrier: Barrier) -> Barrier:
        """Returns a barrier with this failure in its own ack, if it carries that one. An earlier failure stays."""

        def failed(ack: Ack) -> Ack:
            is_own = (ack.uid, ack.subtask, ack.attempt) == (barrier.uid, barrier.subtask, barrier.attempt)
            if not is_own or ack.failure is not None:
                return ack
            return replace(ack, failure=Failure(uid=barrier.uid, subtask=barrier.subtask, **self.what))

        return replace(barrier, acks=tuple(map(failed, barrier.acks)))


def _failed_marks(marks: pa.RecordBatch, failure: _MapFailure) -> pa.RecordBatch:
    """Returns barriers with the failure in their own acks."""
    control = [_failed_mark(mark, failure) for mark in marks.column(CONTROL).to_pylist()]
    index = marks.schema.get_field_index(CONTROL)
    return marks.set_column(index, marks.schema.field(index), pa.array(control, marks.schema.field(index).type))


def _failed_mark(mark: Any, failure: _MapFailure) -> bytes:
    barrier = barrier_of_mark(mark)
    return barrier_mark(group_of_mark(mark), failure.of(barrier)) if barrier is not None else bytes(mark)


__all__ = ["MapRunner"]
