"""The one way to put a manifest (S2, E6): only if absent, and with a definite answer also after storage errors."""

from typing import NamedTuple

from state_engine.epoch.ports import Log
from state_engine.errors import AlreadyExistsError, FencedError, NotFoundError, StorageError
from state_engine.log.manifest import StoredManifest, encode_manifest
from state_engine.log.records import Manifest


class Verdict(NamedTuple):
    """The manifest at the number. `mine`: it is the very manifest that the caller put."""

    stored: StoredManifest
    mine: bool


def seal(log: Log, manifest: Manifest, attempts: int) -> Verdict:
    """Puts a manifest and finds out which manifest holds its number.

    After an error the put may have taken effect, may take effect later, or may have taken effect without being durable.
    So the number is read back. Unless it holds another manifest, the *same* bytes are put again, until the storage
    confirms that they exist, and so are durable. A put that is still in flight can then only repeat what is stored: two
    puts of one incarnation at one number never differ.

    A number may be free because retention deleted its manifest. Retention first raises the generation's floor. The
    floor is read after each put, so that a driver that slept too long finds out. It cannot tell whether it slept before
    its put or after it; in the second case later manifests may build on its manifest. So it leaves the manifest where
    it is. A manifest that no hash leads to is not followed (`kept.ensure_kept`), and retention removes it.

    Args:
        log: The chain of manifests.
        manifest: What to seal.
        attempts: How often to put before giving up.

    Raises:
        FencedError: The number is at or below the floor: the job went on without this driver long ago.
        StorageError: The outcome is unknown. The caller may never put another manifest under its incarnation: this one
            may still appear.
    """
    expected_hash = encode_manifest(manifest)[1]
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
        mine = stored.hash == expected_hash and stored.manifest.incarnation == manifest.incarnation
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
        f"It is unknown whether epoch {manifest.epoch} of generation {manifest.generation} of job {manifest.job!r} was "
        f"sealed: {attempts} attempts to write or read it failed.",
        action="Start the job again once its storage answers; the start finds out.",
    ) from cause


__all__ = ["Verdict", "seal"]
