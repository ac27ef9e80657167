"""What long walks through a log need of a manifest: few of its bytes, and a quarter of the time to decode.

A start follows a chain that may be that of a week. It wants to know how the chain goes, which checkpoints are owed,
which files were read, which output went to sinks and how large the rest is, but not what each subtask wrote.
"""

from typing import NamedTuple

import msgspec
from msgspec.structs import fields

from state_engine.errors import DamagedManifestError
from state_engine.log.envelope import unseal
from state_engine.log.manifest import FORMAT, StoredManifest
from state_engine.log.records import (
    Ack,
    BaseReference,
    GroupRestore,
    Manifest,
    ManifestKind,
    OperatorEpoch,
    Origin,
    OutputFile,
    SinkTable,
    Span,
    Successor,
)
from state_engine.log.source_records import SourceFingerprint, SourcePosition


class Outline(NamedTuple):
    """A manifest without what its subtasks did, except for their output for sinks.

    Attributes:
        manifest: Its place and line, base, checkpoint, sources and their positions, sinks, and operators with such
            output. All other fields are empty.
        hash: The hash of the whole manifest.
        change_bytes: Size of its change files and inlined changes.
        inlined_bytes: The part of it that is inlined.
    """

    manifest: Manifest
    hash: str
    change_bytes: int
    inlined_bytes: int


class _Changes(msgspec.Struct, gc=False):
    length: int


class _Ack(msgspec.Struct, gc=False):
    uid: str
    subtask: int
    attempt: str
    records_in: int
    records_out: int
    changes: _Changes | None = None
    outputs: tuple[OutputFile, ...] = ()


class _Operator(msgspec.Struct, gc=False):
    parallelism: int
    max_parallelism: int
    acks: tuple[_Ack, ...] = ()


class _Outlined(msgspec.Struct, gc=False):
    """The fields that are decoded; a decoder skips the others."""

    job: str
    generation: int
    epoch: int
    kind: ManifestKind
    incarnation: str
    incarnation_number: int
    predecessor: str
    processing_time: int
    lineage: tuple[Span, ...]
    fingerprints: tuple[SourceFingerprint, ...] = ()
    sources: tuple[SourcePosition, ...] = ()
    operators: dict[str, _Operator] = {}
    inlined: dict[str, bytes] = {}
    base: BaseReference | None = None
    checkpoint_id: int | None = None
    origin: Origin | None = None
    successor: Successor | None = None
    sinks: tuple[SinkTable, ...] = ()
    snapshot_id: int | None = None
    restored: GroupRestore | None = None


_KEPT = [field.name for field in fields(_Outlined) if field.name not in ("operators", "inlined")]


def decode_outline(data: bytes, *, path: str = "") -> Outline:
    """Decodes and verifies a manifest, as `decode_manifest`, and returns its outline.

    Raises:
        DamagedManifestError: The bytes are not what was written.
        UnsupportedVersionError: Another release wrote it. Fields that this release does not know are skipped, where
            `decode_manifest` refuses them; a start decodes the newest manifest whole.
    """
    return _reduced(*unseal(FORMAT, _Outlined, data, DamagedManifestError, path=path))


def outline_of(stored: StoredManifest) -> Outline:
    """Returns the outline of a manifest that is decoded already."""
    return _reduced(*stored)


def _reduced(found: Manifest | _Outlined, digest: str) -> Outline:
    acks = [ack for operator in found.operators.values() for ack in operator.acks]
    operators = {
        uid: OperatorEpoch(
            parallelism=operator.parallelism,
            max_parallelism=operator.max_parallelism,
            acks=tuple(_with_output_alone(ack) for ack in operator.acks if ack.outputs),
        )
        for uid, operator in found.operators.items()
        if any(ack.outputs for ack in operator.acks)
    }
    return Outline(
        Manifest(**{name: getattr(found, name) for name in _KEPT}, operators=operators),
        digest,
        sum(ack.changes.length for ack in acks if ack.changes is not None),
        sum(map(len, found.inlined.values())),
    )


def _with_output_alone(ack: Ack | _Ack) -> Ack:
    return Ack(
        uid=ack.uid, subtask=ack.subtask, attempt=ack.attempt, records_in=ack.records_in, records_out=ack.records_out,
        outputs=ack.outputs,
    )  # fmt: skip


__all__ = ["Outline", "decode_outline", "outline_of"]
