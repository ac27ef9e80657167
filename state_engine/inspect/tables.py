"""Reads any Delta table, such as that of a sink, without a JVM."""

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from state_engine.errors import NotFoundError, StorageError


def read_table(path: str, *, version: int | None = None) -> pa.Table:
    """Returns the rows of a Delta table in no particular order.

    Args:
        path: Root of the table.
        version: The newest one by default.

    Raises:
        NotFoundError: There is no Delta table.
        StorageError: It cannot be read.
    """
    try:
        table = DeltaTable(path, version=version).to_pyarrow_table()
    except TableNotFoundError as error:
        raise NotFoundError(f"There is no Delta table at {path}.", action="Check the path.") from error
    except (DeltaError, OSError) as error:
        raise StorageError(
            f"The Delta table {path} cannot be read: {error}.", action="Check its _delta_log."
        ) from error
    assert isinstance(table, pa.Table)
    return table


__all__ = ["read_table"]
