"""How the outputs of an operator travel to the operators that read them.

A single reader takes the columns of its output straight into its exchange. With several readers Spark would run the
operator once for each. So all that they read goes through one exchange before their own (`fan_out.py`). In it, rows of
several outputs share columns by their types, and `PLACE` is the partition of that exchange to which a row goes. Each
subtask has one partition there per output.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.types import StructType
from state_engine.epoch.ports import OperatorPlan
from state_engine.key_groups import range_of
from state_engine.log.barriers import Barrier
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.shared_columns import SharedColumns
from state_engine.serialization.types import schema_of
from state_engine.spark.wire.names import quote_always
from state_engine.spark.wire.rows import CONTROL, CONTROL_DDL, OUR_DDL, PLACE, barrier_mark
from state_engine.spark.wire.schemas import ddl_of


class Reader(NamedTuple):
    """An operator that reads an output of another one.

    Attributes:
        uid: The reading operator.
        output: `main` or a tag id.
    """

    uid: str
    output: str = MAIN


class Handover:
    """What an operator's tasks give to the readers of its outputs, and how the readers find it.

    Args:
        readers: One for each edge that leaves the operator; without any, only the driver reads its rows.
        main: Columns of the main output.
        side_outputs: Columns of the side outputs, by tag id.
        timed: Whether the outputs have event times.
    """

    def __init__(
        self, readers: Sequence[Reader], main: StructType, side_outputs: dict[str, StructType], *, timed: bool
    ) -> None:
        self.readers = tuple(readers)
        self.outputs = tuple(dict.fromkeys(reader.output for reader in readers))
        self.timed = timed
        self._structs = {output: main if output == MAIN else side_outputs[output] for output in self.outputs}
        self._places: dict[str, tuple[int, ...]] = {}
        self._shared: SharedColumns | None = None
        for output, struct in self._structs.items():
            if self._shared is None:
                self._shared = SharedColumns(struct)
                self._places[output] = tuple(range(len(struct.names)))
            else:
                self._places[output] = self._shared.take(struct)

    @property
    def shared(self) -> bool:
        """Whether there are several readers, which share an exchange before their own."""
        return len(self.readers) > 1

    @cached_property
    def columns(self) -> StructType:
        """The columns that the outputs share; ours come after them."""
        assert self._shared is not None, "only the driver listens"
        return self._shared.columns

    @property
    def ddl(self) -> str:
        """Columns of the rows that the tasks give, as a Spark schema string."""
        ours = ", ".join(OUR_DDL[name] for name in self._ours)
        return f"{ddl_of(self.columns)}, {ours}" if self.outputs else CONTROL_DDL

    def selected(self, output: str) -> list[str]:
        """Returns the columns of an output's records and marks, computed from the tasks' rows, as Spark SQL."""
        struct, names = self._structs[output], self.columns.names
        authored = [
            f"{quote_always(names[place])} as {quote_always(name)}"
            for place, name in zip(self._places[output], struct.names, strict=True)
        ]
        return [*authored, *(name for name in self._ours if name != PLACE)]

    def records(self, output: str, batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
        """Returns records of an output as the tasks give them.

        Args:
            output: An output that has a reader.
            batch: The output's columns, and `EVENT_TIME` if it is timed.
            place: Number of the subtask's partition for this output, if readers share an exchange.
        """
        columns = dict(zip(self._places[output], batch.columns, strict=False))
        made: list[Any] = [
            columns[n] if n in columns else pa.nulls(batch.num_rows, self._schema.field(n).type)
            for n in range(len(self.columns.names))
        ]
        made += [batch.column(EVENT_TIME)] if self.timed else []
        return self._with_ours(made, pa.nulls(batch.num_rows, pa.binary()), [place] * batch.num_rows)

    def marks(self, barriers: Sequence[Barrier], down: OperatorPlan, places: Iterable[int]) -> pa.RecordBatch:
        """Returns the barriers after the last record, one for each subtask of a reader, and once for each output.

        Args:
            barriers: The barriers, by the number of the subtask that they are for.
            down: The readers' plan: they all have one parallelism.
            places: Numbers of the subtask's partitions, one for each output.
        """
        groups = [range_of(n, down.parallelism, down.max_parallelism).first for n in range(down.parallelism)]
        place_of_each = [place for place in places for _ in barriers]
        control = [barrier_mark(group, barrier) for group, barrier in zip(groups, barriers, strict=True)]
        fields = [field for field in self._schema if field.name not in (PLACE, CONTROL)]
        empty: list[Any] = [pa.nulls(len(place_of_each), field.type) for field in fields]
        return self._with_ours(empty, pa.array(control * len(self.outputs), pa.binary()), place_of_each)

    def places_of(self, subtask: int, parallelism: int) -> dict[str, int]:
        """Returns the numbers of a subtask's partitions in the exchange that readers share, one for each output."""
        return {output: n * parallelism + subtask for n, output in enumerate(self.outputs)}

    @property
    def _ours(self) -> list[str]:
        return [*([EVENT_TIME] if self.timed else []), *([PLACE] if self.shared else []), CONTROL]

    @cached_property
    def _schema(self) -> pa.Schema:
        ours = {EVENT_TIME: pa.int64(), PLACE: pa.int32(), CONTROL: pa.binary()}
        return pa.schema([*schema_of(self.columns), *(pa.field(name, ours[name]) for name in self._ours)])

    def _with_ours(self, columns: list[Any], control: Any, places: list[int]) -> pa.RecordBatch:
        if self.shared:
            columns = [*columns, pa.array(np.asarray(places, np.int32))]
        return pa.RecordBatch.from_arrays([*columns, control], schema=self._schema)


__all__ = ["Handover", "Reader"]
