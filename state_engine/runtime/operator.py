"""An operator instance: one function over one key-group range, record by record, Arrow at both ends."""

import traceback
from operator import itemgetter
from typing import Any

import pyarrow as pa

from state_engine.api.functions import KeyedProcessFunction, ProcessFunction
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.time import NO_WATERMARK, OperatorTime
from state_engine.errors import LakestateError
from state_engine.key_groups import range_of
from state_engine.log.records import Failure
from state_engine.runtime.adapters import Adapter
from state_engine.runtime.contexts import OperatorRuntimeContext, OperatorTimerService, RecordContext
from state_engine.runtime.outputs import MAIN, OutputValueError, OutputWriter, has_tags, split_by_tag
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.convert import reader, row_maker

_SHOWN = 500


class OperatorFailure(Exception):
    """The author's code failed; `failure` says where, on which key and record."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Operator:
    """One instance of an operator in one worker.

    Life: `open` once, then per epoch `begin`, `process` for every batch, and the backend's freeze; `close` when it is
    dropped. After any failure the instance is not used again.

    Args:
        spec: The operator; its function belongs to this instance alone.
        subtask: Its number.
        parallelism: The operator's parallelism.
    """

    def __init__(self, spec: OperatorSpec, subtask: int, parallelism: int) -> None:
        self.spec = spec
        self.subtask = subtask
        self.parallelism = parallelism
        self.context = KeyContext()
        self.time = OperatorTime()
        self.backend: HeapKeyedStateBackend | None = None
        if spec.key:
            codec = KeyCodec(spec.key, spec.max_parallelism)
            key_groups = range_of(subtask, parallelism, spec.max_parallelism)
            self.backend = HeapKeyedStateBackend(spec.uid, codec, key_groups, self.context)
        self.runtime = OperatorRuntimeContext(
            spec.uid,
            subtask,
            parallelism,
            spec.max_parallelism,
            spec.parameters,
            self.backend.state if self.backend else None,
        )
        self.function: Any = spec.function
        self.opened = False
        self._called = self.function.verb if isinstance(self.function, Adapter) else "process_element"
        self._record = RecordContext(self.context, self.time, OperatorTimerService(self.time))
        self._read_columns = [reader(t) for t in spec.input.types]
        self._make_row = row_maker(spec.input)
        self._key_positions = [spec.input.names.index(c.name) for c in spec.key]
        self._main = OutputWriter(MAIN, spec.output)
        self._emits_tags = False
        self._side = {tag: OutputWriter(tag, struct) for tag, struct in spec.side_outputs.items()}

    def open(self) -> None:
        """Opens the function.

        Raises:
            OperatorFailure: Its `open` raised.
        """
        try:
            self.function.open(self.runtime)
        except LakestateError:
            raise
        except Exception as error:
            raise self._failed(error, "open() raised") from error
        self.opened = True

    def close(self) -> None:
        """Closes the function if it was opened."""
        if self.opened:
            self.opened = False
            self.function.close()

    def begin(self, processing_time: int, watermark: int | None, attempt: int) -> None:
        """Starts an epoch."""
        self.time.processing_time = processing_time
        self.time.watermark = NO_WATERMARK if watermark is None else watermark
        self.runtime.attempt = attempt

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """Processes one batch of records.

        Args:
            batch: The input columns, in the spec's order.

        Returns:
            One batch per output that got rows: `main`, and the tag ids that somebody reads.

        Raises:
            OperatorFailure: The function raised, or returned what its output type does not admit.
        """
        columns = [read(column) for read, column in zip(self._read_columns, batch.columns, strict=True)]
        if self.backend is not None:
            keys = self._keys(columns)
            emitted = self._keyed_loop(keys, columns)
        else:
            emitted = self._loop(columns)
        return self._outputs(emitted) if emitted else {}

    def _keys(self, columns: list[list[Any]]) -> list[Any]:
        if len(self._key_positions) == 1:
            return columns[self._key_positions[0]]
        return list(zip(*itemgetter(*self._key_positions)(columns), strict=True))

    def _keyed_loop(self, keys: list[Any], columns: list[list[Any]]) -> list[Any]:
        """The row path: per record one row object, one key, one call. Measured before anything is added here."""
        function: KeyedProcessFunction = self.function
        process, record, context = function.process_element, self._record, self.context
        emitted: list[Any] = []
        extend = emitted.extend
        key: Any = None
        row: Any = None
        try:
            for key, row in zip(keys, map(self._make_row, *columns), strict=True):
                context.entry = key
                result = process(row, record)
                if result is not None:
                    extend(result)
        except Exception as error:
            raise self._failed(error, f"{self._called}() raised", key, row) from error
        return emitted

    def _loop(self, columns: list[list[Any]]) -> list[Any]:
        function: ProcessFunction = self.function
        process, record = function.process_element, self._record
        emitted: list[Any] = []
        row: Any = None
        try:
            for row in map(self._make_row, *columns):
                result = process(row, record)
                if result is not None:
                    emitted.extend(result)
        except Exception as error:
            raise self._failed(error, f"{self._called}() raised", None, row) from error
        return emitted

    def _outputs(self, emitted: list[Any]) -> dict[str, pa.RecordBatch]:
        try:
            if not self._emits_tags:
                try:
                    return {MAIN: self._main.write(emitted)}
                except OutputValueError:
                    self._emits_tags = has_tags(emitted)  # looked for only when the rows are not plain: 50 ns a row
                    if not self._emits_tags:
                        raise
            main, tagged = split_by_tag(emitted)
            batches = {MAIN: self._main.write(main)} if main else {}
            for tag, rows in tagged.items():
                if tag in self._side:
                    batches[tag] = self._side[tag].write(rows)
            return batches
        except OutputValueError as error:
            raise self._mistyped(error) from None

    def _mistyped(self, error: OutputValueError) -> OperatorFailure:
        declared = self.spec.output if error.output == MAIN else self.spec.side_outputs.get(error.output)
        return OperatorFailure(
            Failure(
                kind="output_type",
                uid=self.spec.uid,
                subtask=self.subtask,
                message=f"Operator {self.spec.uid!r} returned a row for its output {error.output!r} that is not "
                f"{declared.ddl() if declared else 'a pair of tag and row'}: {error}.",
                action="Return rows of the declared type, or change output_type.",
                record=error.row[:_SHOWN],
            )
        )

    def _failed(self, error: Exception, what: str, key: Any = None, row: Any = None) -> OperatorFailure:
        if isinstance(error, OperatorFailure):
            return error
        return OperatorFailure(
            Failure(
                kind="user_function",
                uid=self.spec.uid,
                subtask=self.subtask,
                message=f"{what} {type(error).__name__}: {error}.",
                action="Mend the function, or let it send such records to a side output; the epoch was not sealed, "
                "and the job goes on from the record in front when it is started again.",
                key=repr(key)[:_SHOWN] if row is not None and self.spec.key else "",
                record=repr(row)[:_SHOWN] if row is not None else "",
                traceback="".join(traceback.format_exception(error))[-4000:],
            )
        )


__all__ = ["Operator", "OperatorFailure"]
