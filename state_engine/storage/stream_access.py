"""The checkpoint storages `filesystem` and `memory`: a state stream per part, in a file of its own or in the base."""

from collections.abc import Sequence

import xxhash

from state_engine.clock import Ids
from state_engine.log.paths import state_stream_path
from state_engine.log.records import Codec, StateFile, StateSchema
from state_engine.log.state_stream import StreamEncoder, StreamHeader
from state_engine.storage.checkpoint_storage import (
    FILESYSTEM,
    MEMORY,
    FoldedPart,
    PublishedState,
    StorageTraits,
    WrittenPart,
)
from state_engine.storage.output_stream import (
    CheckpointStateOutputStream,
    FsCheckpointStateOutputStream,
    MemCheckpointOutputStream,
    check_size,
)
from state_engine.storage.port import CheckpointStorage

CODEC: Codec = "zstd"


class FsCheckpointStorageAccess:
    """Writes each part as a file with a state stream; streams of up to `threshold` bytes are inlined in their handles.

    Args:
        storage: The bytes of the job.
        ids: Make names of files.
        threshold: In bytes, at most 1 MiB.
        buffer_size: Of each stream, in bytes; at least the threshold.
    """

    def __init__(self, storage: CheckpointStorage, ids: Ids, *, threshold: int, buffer_size: int) -> None:
        self._storage, self._ids = storage, ids
        self._threshold, self._buffer_size = threshold, buffer_size

    @property
    def traits(self) -> StorageTraits:
        return FILESYSTEM

    def active(self, folder: str) -> Sequence[str] | None:
        return None

    def write(self, part: FoldedPart) -> WrittenPart:
        stream = FsCheckpointStateOutputStream(
            self._storage,
            self._ids,
            lambda new: state_stream_path(part.folder, part.stem, new),
            self._buffer_size,
            self._threshold,
        )
        return write_stream(stream, part)

    def commit(self, state: PublishedState) -> int | None:
        return None


class MemoryBackedCheckpointStorageAccess:
    """All state is inlined in its handles, so that a checkpoint is its record and nothing else.

    Args:
        ids: Make names, under which no file exists.
        max_state_size: The largest size of a state in bytes, over all its parts.
    """

    def __init__(self, ids: Ids, *, max_state_size: int) -> None:
        self._ids = ids
        self._max_state_size = max_state_size

    @property
    def traits(self) -> StorageTraits:
        return MEMORY

    def active(self, folder: str) -> Sequence[str] | None:
        return None

    def write(self, part: FoldedPart) -> WrittenPart:
        path = state_stream_path(part.folder, part.stem, self._ids.new_id())
        return write_stream(MemCheckpointOutputStream(path, self._max_state_size, _named(part.schema)), part)

    def commit(self, state: PublishedState) -> int | None:
        check_size(_named(state.schema), sum(file.length for file in state.files), self._max_state_size)
        return None


def write_stream(stream: CheckpointStateOutputStream, part: FoldedPart) -> WrittenPart:
    """Writes a part to a stream, key group by key group, and returns a handle with the place of each of them."""
    header = StreamHeader(
        generation=part.generation,
        uid=part.schema.uid,
        state=part.schema.name,
        schema_id=part.schema.schema_id,
        max_parallelism=part.max_parallelism,
        codec=CODEC,
    )
    encoder, digest = StreamEncoder(header, part.rows), xxhash.xxh3_128()
    with stream:
        for piece in encoder.encoded():
            stream.write(piece)
            digest.update(piece)
        handle = stream.close_and_get_handle()
    assert handle is not None, "a stream is never empty: it has a prologue"
    blocks = encoder.blocks
    file = StateFile(
        schema_id=part.schema.schema_id,
        path=handle.path,
        length=handle.length,
        checksum=f"xxh3:{digest.hexdigest()}",
        rows=part.rows.num_rows,
        first=blocks[0].key_group,
        last=blocks[-1].key_group,
        generation=part.generation,
        max_parallelism=part.max_parallelism,
        codec=CODEC,
        row_groups=tuple((block.key_group, block.key_group, block.rows) for block in blocks),
        format="stream",
        spans=tuple((block.offset, block.length) for block in blocks),
        inlined=handle.inlined,
    )
    return WrittenPart(file)


def _named(schema: StateSchema) -> str:
    return f"State {schema.name!r} of operator {schema.uid!r}"


__all__ = ["FsCheckpointStorageAccess", "MemoryBackedCheckpointStorageAccess", "write_stream"]
