"""`from_collection`: writes values to a file that Spark reads as a stream, and can read again."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.api.types import StructType
from state_engine.errors import AlreadyExistsError, JobDefinitionError, UnsupportedTypeError
from state_engine.runtime.outputs import OutputValueError, OutputWriter
from state_engine.spark.wire.schemas import ddl_of
from state_engine.storage.local import LocalStorage
from state_engine.storage.roots import local_path

FOLDER = "_collections"


def batch_of(values: Sequence[Any], columns: StructType) -> pa.RecordBatch:
    """Converts values to a record batch.

    Raises:
        UnsupportedTypeError: A value is not of the type.
    """
    try:
        return OutputWriter("from_collection", columns).write(values)
    except OutputValueError as error:
        raise UnsupportedTypeError(
            f"from_collection() got {error.row}, which is no {columns.ddl()}: {error}.", action="Change type_info."
        ) from None


def write_collection(root: str, job: str, number: int, batch: pa.RecordBatch) -> Path:
    """Writes a collection below the state root, unless it exists there, and returns its folder.

    The name of the file is a hash of its content: a restarted job has already read that file, and a restore finds it.

    Raises:
        JobDefinitionError: The root is no local folder.
    """
    local = local_path(root)
    if local is None:
        raise JobDefinitionError(
            f"from_collection() writes its values as a file, and {root} is no local folder.",
            action="Give a streaming DataFrame to from_source(), or a state root on a local disk.",
        )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([batch]), sink)
    data = sink.getvalue().to_pybytes()
    folder = Path(local, FOLDER, job, str(number))
    with suppress(AlreadyExistsError):  # an earlier start has written it
        LocalStorage(folder).put_if_absent(f"{hashlib.sha256(data).hexdigest()[:32]}.parquet", data)
    return folder


def read_collection(session: Any, folder: Path, columns: StructType) -> Any:
    """Returns the stream of the values in a folder."""
    return session.readStream.schema(ddl_of(columns)).parquet(str(folder))


__all__ = ["FOLDER", "batch_of", "read_collection", "write_collection"]
