"""The sources of a job in manifests: what they are, their positions, and the files that they have read."""

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
    are recorded below them.
    """

    kind: str
    path: str
    options: dict[str, str] = msgspec.field(default_factory=dict)
    former: tuple[str, ...] = ()


__all__ = ["SourceFile", "SourceFingerprint", "SourcePosition"]
