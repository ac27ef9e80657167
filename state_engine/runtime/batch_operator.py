"""An operator instance that calls its function with whole batches, and with all due timers together."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import StateDescriptor
from state_engine.api.keys import Keys
from state_engine.api.timers import TimeDomain
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import MakeBackend
from state_engine.backends.keys import NO_KEY
from state_engine.backends.time import watermark_after
from state_engine.runtime.batch_contexts import BatchContext, BatchTimers, TimersContext
from state_engine.runtime.batch_function import (
    BatchCall,
    by_output,
    layout_of,
    takes_timers_together,
)
from state_engine.runtime.declared.base import FiresTogether
from state_engine.runtime.failures import output_failure
from state_engine.runtime.operator import Operator
from state_engine.runtime.outputs import OutputValueError
from state_engine.runtime.spec import OperatorSpec

_EVENT, _PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


class BatchOperator(Operator):
    """As `Operator`, for a `KeyedBatchProcessFunction`.

    Records wait until there are enough of them or the epoch ends. A batch has no order, so the watermark advances only
    after the epoch's last record. `on_timers` gets timers together, `on_timer` gets them one by one.
    """

    def __init__(
        self, spec: OperatorSpec, subtask: int, parallelism: int, make_backend: MakeBackend = HeapKeyedStateBackend
    ) -> None:
        super().__init__(spec, subtask, parallelism, make_backend)
        assert self.backend is not None, "a function over batches has a key"
        self._call = BatchCall(spec, self._key_positions, self._codec)
        self._together = takes_timers_together(self.function)
        timers = BatchTimers(self.time, self.backend.timers)
        self._batch, self._many_timers = BatchContext(timers), TimersContext(timers)
        self.backend.timers_by_columns = self._together

    def _states(self) -> Callable[[StateDescriptor], Any] | None:
        backend, function = self.backend, self.spec.function
        return None if backend is None else lambda asked: backend.state(asked, layout_of(function, asked))

    def begin(
        self,
        processing_time: int,
        watermark: int | None,
        attempt: int,
        completed: Sequence[int] = (),
        aborted: Sequence[int] = (),
    ) -> None:
        super().begin(processing_time, watermark, attempt, completed, aborted)
        self._call.begin()

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        return {} if self._call.waits_with(batch) else self.flush()

    def flush(self) -> dict[str, pa.RecordBatch]:
        waiting = self._call.taken()
        return self._process_batch(waiting) if waiting is not None else {}

    def advance_watermark(self) -> dict[str, pa.RecordBatch]:
        out_of_orderness, latest = self.spec.out_of_orderness, self._call.latest
        if out_of_orderness is None or latest is None or not self._together:
            return {}
        watermark = watermark_after(latest, out_of_orderness)
        if watermark <= self.time.watermark:
            return {}
        self.time.watermark = watermark
        return self._fire_together(_EVENT)

    def _fire_all(self) -> dict[str, pa.RecordBatch]:
        return self._fire_together(_EVENT, _PROCESSING) if self._together else super()._fire_all()

    def _process_batch(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        keys, records = self._call.records(batch)
        self.time.timestamp = None
        given = partial(self.function.process_batch, keys, records, self._batch)
        outputs = self._given(given, keys, "process_batch() raised", records)
        self.context.count_records(len(keys))
        return outputs

    def _fire_together(self, *domains: TimeDomain) -> dict[str, pa.RecordBatch]:
        """Hands over the due timers: to a declared function once, to an author's function until none is due."""
        if isinstance(self.function, FiresTogether):
            return self._fire_declared(self.function)
        outputs: list[dict[str, pa.RecordBatch]] = []
        for domain in domains:
            limit = self.time.watermark if domain is _EVENT else self.time.processing_time
            self._many_timers.domain = domain
            while (timers := self._timers(domain)) is not None and (due := timers.due_keys(limit)) is not None:
                for keys, times in self._call.timers(due, domain):
                    given = partial(self.function.on_timers, keys, times, self._many_timers)
                    what = f"on_timers() with {len(keys)} timers up to {times[-1]} raised"
                    outputs.append(self._given(given, keys, what))
                    self.context.count_records(len(keys))
        return by_output(outputs)

    def _fire_declared(self, function: FiresTogether) -> dict[str, pa.RecordBatch]:
        backend = self.backend
        if backend is not None and backend.has_timers(_PROCESSING):
            # An earlier function under this uid registered them. Remove them, or idle epochs would run for them.
            for _ in backend.timers(_PROCESSING).all_due(self.time.processing_time, in_turn=False):
                pass
        timers = self._timers(_EVENT)
        keys = timers.due_keys(self.time.watermark, in_turn=function.in_turn) if timers is not None else None
        if keys is None:
            return {}
        latest = int(np.asarray(keys.times).max())
        given = partial(function.fire, keys, self._batch)
        return self._given(given, keys, f"{len(keys)} timers up to {latest} raised")

    def _given(
        self, given: Callable[[], Any], keys: Keys, what: str, records: pa.RecordBatch | None = None
    ) -> dict[str, pa.RecordBatch]:
        """Returns what a function over batches gives, by output; it may give a generator."""
        self.context.entry = NO_KEY
        try:
            return self._call.outputs(given(), keys)
        except OutputValueError as error:
            raise output_failure(self.spec, self.subtask, error) from None
        except BaseException as error:
            raise self._failed(error, what, data=(keys, records)) from error


__all__ = ["BatchOperator"]
