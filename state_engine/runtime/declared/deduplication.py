"""`KeyedStream.deduplicate`: the first record of each key."""

from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import ValueStateDescriptor
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, indices
from state_engine.api.pyflink_types import Types
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import StructType
from state_engine.runtime.declared.base import Declared


class Deduplication(Declared):
    """Gives the first record of each key, and drops further ones as long as it remembers the key.

    Args:
        columns: Columns of the records, and of the rows.
        ttl: How long a key is remembered after its first record; None for ever.
    """

    verb = "deduplicate"

    def __init__(self, columns: StructType, ttl: StateTtlConfig | None = None) -> None:
        super().__init__(ttl)
        self.output = columns

    @property
    def argument(self) -> str:
        return self.arguments()

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(self.kept(ValueStateDescriptor("seen", Types.BOOLEAN())))

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        seen = np.asarray(self._seen.contains_many(keys.distinct))
        first = keys.first[~seen]
        new = keys.take(first)
        self._seen.put_many(new, np.ones(len(new), bool))
        return ctx.timed(batch.take(indices(first)), new.times)


__all__ = ["Deduplication"]
