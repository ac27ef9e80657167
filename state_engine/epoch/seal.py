"""The one way to put a manifest (S2, E6): if absent, and with a definite answer whatever the storage says."""

from typing import NamedTuple

from state_engine.epoch.ports import Log
from state_engine.errors import AlreadyExistsError, FencedError, NotFoundError, StorageError
from state_engine.log.manifest import StoredManifest, encode_manifest
from state_engine.log.records import Manifest


class Verdict(NamedTuple):
    """What lies at the manifest's number. `mine` says that it is the very manifest that was put."""

    stored: StoredManifest
    mine: bool


def seal(log: Log, manifest: Manifest, attempts: int) -> Verdict:
    """Puts a manifest and finds out who holds its number.

    After an error nobody knows whether the put took effect, will take effect later, or took effect and is not durable.
    So the number is read back. Unless another manifest is there, the *same* bytes are put again, until the storage says
    that they are there, which says that they stay. A put that is still in flight can then only repeat what is there:
    two puts of one incarnation at one number never differ.

    A number may be free because retention deleted its manifest. It raises the generation's floor before it does, and
    the floor is read behind each put, so that a driver which slept too long finds out. Whether it slept in front of its
    put or behind it, nobody can tell: then others may stand on its manifest. So it leaves the manifest where it is;
    what no hash leads to is not followed (`kept.ensure_kept`), and retention removes it.

    Args:
        log: The chain of manifests.
        manifest: What to seal.
        attempts: How often to put before giving up.

    Raises:
        FencedError: The number lies at or below the floor: the job went on without this driver long ago.
        StorageError: The outcome is unknown. The caller may never put another manifest under its incarnation: this one
            may still appear.
    """
    own = encode_manifest(manifest)[1]
    cause: StorageError | None = None
    for _ in range(attempts):
        is_durable = True
        try:
            stored = log.put(manifest)
        except StorageError as error:
            cause, is_durable = error, isinstance(error, AlreadyExistsError)
            try:
                stored = log.read(manifest.generation, manifest.epoch)
            except NotFoundError:
                continue
            except StorageError as failed_read:
                cause = failed_read
                continue
        mine = stored.hash == own and stored.manifest.incarnation == manifest.incarnation
        if not mine:
            return Verdict(stored, mine)
        if not is_durable:
            continue
        try:
            floor = log.floors().get(manifest.generation, 0)
        except StorageError as error:
            cause = error
            continue
        if manifest.epoch > floor:
            return Verdict(stored, mine)
        raise FencedError(
            f"Epoch {manifest.epoch} of generation {manifest.generation} of job {manifest.job!r} is too late: "
            f"retention has freed its number, the generation's floor is {floor}.",
            action="Nothing, if the job was started elsewhere; otherwise start it again.",
        )
    raise StorageError(
        f"Nobody knows whether epoch {manifest.epoch} of generation {manifest.generation} of job {manifest.job!r} was "
        f"sealed: {attempts} tries to write or read it failed.",
        action="Start the job again once its storage answers; the start finds out.",
    ) from cause


__all__ = ["Verdict", "seal"]
