"""What one checkpoint made visible of each state, without reading much of the state.

For pages that are drawn often: most is in the base of the checkpoint, small files are read once, and of a large file no
more than its first pages.
"""

import pyarrow as pa
import pyarrow.compute as pc

from state_engine.checkpoint.plan import files_of, layer_of
from state_engine.checkpoint.table import CheckpointRow
from state_engine.inspect.scan import ReadKeyGroups, group_rows
from state_engine.log.ops import OP, Op, ops_to_names
from state_engine.log.paths import state_table_path
from state_engine.log.records import Base, StateSchema
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_files import read_head
from state_engine.storage.state_reader import Segment, empty_rows, read_base

LARGEST_HEAD = 2 << 20
_LOOKED_THROUGH = 50
_LIVING = (Op.PUT.name.lower(), Op.APPEND.name.lower())


class PublishedStates:
    """The states of a job as its checkpoint published them.

    Args:
        storage: Of the job.
        base: The base that the checkpoint made visible.
        runs: Counts the rows of files, and remembers the counts.
    """

    def __init__(self, storage: CheckpointStorage, base: Base, runs: ReadKeyGroups) -> None:
        self._storage, self._base, self._runs = storage, base, runs
        self._schemas = {state_table_path(schema): schema for schema in base.schemas}

    def schema(self, table: str) -> StateSchema | None:
        """Returns the newest schema of the state in the folder `table`, None if there is no such state."""
        return self._schemas.get(table)

    def key_groups(self, schema: StateSchema) -> list[float]:
        """Returns how many rows of its log a state has in each key group; empty if it is not spread over key groups.

        A number that is known only for several key groups together is spread over them.
        """
        files = files_of(self._base, schema)
        if schema.kind not in ("keyed", "timer") or not files:
            return []
        rows = group_rows([Segment(self._storage, self._base, ())], schema, files[-1].max_parallelism, self._runs)
        return [float(count) for count in rows]

    def sample(self, schema: StateSchema, rows: int) -> pa.Table:
        """Returns a few rows that the newest publish of a state wrote and that were live then, in the file's order.

        Returns no rows if its first rows only delete, or are larger than `LARGEST_HEAD`.

        Raises:
            CorruptionError: The file is gone or damaged.
        """
        files = files_of(self._base, schema)
        newest = [file for file in files if layer_of(file.path) == layer_of(files[-1].path)]
        smallest = min(newest, key=lambda file: file.length, default=None)
        head = (
            read_head(self._storage, smallest, _LOOKED_THROUGH, at_most=LARGEST_HEAD) if smallest is not None else None
        )
        if head is None:
            return empty_rows(schema).drop_columns([OP])
        # Within one publish there is one row of a key that counts, so no later row undoes a put.
        named = ops_to_names(head.slice(0, _LOOKED_THROUGH))
        return named.filter(pc.is_in(named[OP], value_set=pa.array(_LIVING))).slice(0, rows).drop_columns([OP])


def published_states(storage: CheckpointStorage, row: CheckpointRow, runs: ReadKeyGroups) -> PublishedStates | None:
    """Returns what a completed checkpoint published; None for any other row.

    Raises:
        CorruptionError: Its base is damaged; or gone, as may happen with an old checkpoint.
    """
    return PublishedStates(storage, read_base(storage, row.base), runs) if row.base is not None else None


__all__ = ["LARGEST_HEAD", "PublishedStates", "published_states"]
