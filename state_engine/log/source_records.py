"""The sources of a job in manifests: what they are, where they stand, and the files that they have read."""

import msgspec

from state_engine.serialization.column import Record


class SourceFile(Record, frozen=True, kw_only=True):
    """One entry of a file source's log."""

    path: str
    timestamp: int


class SourcePosition(Record, frozen=True, kw_only=True):
    """Where one source of the job stands: Spark's own offset line, verbatim, and the epoch's new files."""

    offset: str
    new_files: tuple[SourceFile, ...] = ()


class SourceFingerprint(Record, frozen=True, kw_only=True):
    """What must not change under a source position. `options` are those that decide what is read."""

    kind: str
    path: str
    options: dict[str, str] = msgspec.field(default_factory=dict)


__all__ = ["SourceFile", "SourceFingerprint", "SourcePosition"]
