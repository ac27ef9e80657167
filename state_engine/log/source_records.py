"""The sources of a job in manifests: what they are, their positions, and the files that they have read."""

from collections.abc import Iterable, Sequence

import msgspec

from state_engine.serialization.column import Record


class SourceFile(Record, frozen=True, kw_only=True):
    """One entry of a file source's log."""

    path: str
    timestamp: int


class SourcePosition(Record, frozen=True, kw_only=True):
    """The position of one source of the job: Spark's own offset line, verbatim, and the epoch's new files."""

    offset: str
    new_files: tuple[SourceFile, ...] = ()


class SourceFingerprint(Record, frozen=True, kw_only=True):
    """What must not change about a source unless the start allows it. `options` are those that decide what is read.

    `former` are the paths at which a file source read before, or former spellings of its path: files that it read then
    are recorded below them. `ids` are the ids of Kafka's topics, by their names, as a start has found them.
    """

    kind: str
    path: str
    options: dict[str, str] = msgspec.field(default_factory=dict)
    former: tuple[str, ...] = ()
    ids: dict[str, str] = msgspec.field(default_factory=dict)


def files_read(
    base: Sequence[Sequence[SourceFile]], epochs: Iterable[Sequence[SourcePosition]]
) -> tuple[tuple[SourceFile, ...], ...]:
    """Returns for each source the files that a job had read after some epochs.

    Args:
        base: The files of each source that it had read before.
        epochs: The sources of each manifest since, oldest first.
    """
    files = [list(earlier) for earlier in base]
    for positions in epochs:
        files.extend([] for _ in range(len(positions) - len(files)))
        for earlier, position in zip(files, positions, strict=False):
            earlier.extend(position.new_files)
    return tuple(map(tuple, files))


__all__ = ["SourceFile", "SourceFingerprint", "SourcePosition", "files_read"]
