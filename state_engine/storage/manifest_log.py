"""Reads and writes the chain of sealed manifests of one job in a storage."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from state_engine.errors import (
    AlreadyExistsError,
    CorruptionError,
    DamagedManifestError,
    MissingFileError,
    NotFoundError,
)
from state_engine.log.birth import Birth, decode_birth, encode_birth
from state_engine.log.lineage import Place, contains, predecessor_of
from state_engine.log.manifest import StoredManifest, decode_manifest, encode_manifest
from state_engine.log.outline import Outline, decode_outline, outline_of
from state_engine.log.paths import (
    BIRTH,
    EPOCHS,
    FLOORS,
    generation_folder,
    manifest_path,
    parse_floor_path,
    parse_generation_folder,
    parse_manifest_path,
)
from state_engine.log.records import BaseReference, Manifest
from state_engine.storage.port import CheckpointStorage

Link = TypeVar("Link", StoredManifest, Outline)

CACHED_MANIFESTS = 1024
CACHED_BYTES = 64 << 20
"""Bytes of cached manifests as they are stored, at most; decoded they take two to three times as much memory. Inlined
changes are among them: a chain has a quarter of this when a base is folded for it."""


class ManifestLog:
    """Reads, verifies and seals the manifests of one job.

    Sealed manifests never change, so decoded ones are cached (the least recently used one leaves first), and a chain
    that was followed once costs no I/O again. Which epochs are sealed is always listed from the storage. No retries, no
    locks; not for several threads at once.

    Args:
        storage: The storage of the job.
        job: Its name; a manifest of another job under this root is damage.
        open_job: Opens the storage of another job, for chains that cross into the job from which this one was forked.
            Without it such a chain is refused.
        cached: The number of manifests that are cached, at most.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        job: str,
        *,
        open_job: Callable[[str], CheckpointStorage] | None = None,
        cached: int = CACHED_MANIFESTS,
    ) -> None:
        self._storage = storage
        self._job = job
        self._open_job = open_job
        self._cached = cached
        self._cache: OrderedDict[str, StoredManifest] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._birth: str | None = None
        self._others: dict[str, ManifestLog] = {}
        self._outlines: dict[str, Outline] = {}

    def generations(self) -> list[int]:
        """Returns the generations that have a folder, in ascending order."""
        numbers = (parse_generation_folder(name) for name in self._storage.folders(EPOCHS))
        return sorted(number for number in numbers if number is not None)

    def epochs(self, generation: int) -> list[int]:
        """Returns the numbers of the sealed epochs of a generation in ascending order; one listing, no reads."""
        listed = self._storage.list(generation_folder(generation), recursive=False)
        places = (parse_manifest_path(info.path) for info in listed)
        return sorted(place[1] for place in places if place is not None)

    def newest(self, generation: int) -> StoredManifest | None:
        """Returns the manifest with the highest epoch of the generation: two listings, or three, and one read.

        None if that epoch is at or below the generation's floor: manifests that remain there are kept by a savepoint,
        and no epoch follows them. A process may sleep between its two listings, while the generation goes on and
        retention frees all that the first one returned. So it lists once more after it has read the floor.

        Raises:
            CorruptionError: that manifest is damaged. An older one is never returned in its place.
        """
        floor = 0
        while True:
            epochs = self.epochs(generation)
            if not epochs or epochs[-1] <= floor:
                return None
            floor = self.floors().get(generation, 0)
            if epochs[-1] <= floor:
                continue
            try:
                return self.read(generation, epochs[-1])
            except NotFoundError:
                if self.floors().get(generation, 0) == floor:  # nothing was freed meanwhile
                    raise

    def birth(self) -> str | None:
        """Returns the log's birth id, None if it has none yet; one read, and no read once it is known.

        Raises:
            DamagedFileError: It is not what was written.
        """
        if self._birth is None:
            try:
                self._birth = decode_birth(self._storage.get(BIRTH), path=BIRTH).birth_id
            except NotFoundError:
                return None
        return self._birth

    def create_birth_id(self, birth_id: str, now_ms: int) -> None:
        """Gives the log a birth id, unless it has one.

        Raises:
            StorageError: It is unknown whether the log has one now; calling again is safe.
        """
        with suppress(AlreadyExistsError):
            self._storage.put_if_absent(BIRTH, encode_birth(Birth(job=self._job, birth_id=birth_id, born_at=now_ms)))

    def floors(self) -> dict[int, int]:
        """Returns the floor of each generation that has one: no epoch up to it may be sealed any more; one listing."""
        floors: dict[int, int] = {}
        for info in self._storage.list(FLOORS, recursive=False):
            if (place := parse_floor_path(info.path)) is not None:
                floors[place[0]] = max(floors.get(place[0], 0), place[1])
        return floors

    def read(self, generation: int, epoch: int, *, expected: str = "") -> StoredManifest:
        """Returns one manifest; its own checksum is verified, but not its place in the chain.

        Args:
            generation: Its generation.
            epoch: Its epoch.
            expected: The hash that it should have. A cached manifest with another hash is read once more: the root may
                have been set back, or a log may have begun anew in it.

        Raises:
            NotFoundError: the epoch is not sealed, or its manifest was deleted.
            DamagedManifestError: the bytes are damaged, or they are the manifest of another epoch.
            UnsupportedVersionError: another release wrote it.
        """
        path = manifest_path(generation, epoch)
        if expected and path in self._cache and self._cache[path].hash != expected:
            self._forget(path)
        if path in self._cache:
            self._cache.move_to_end(path)
            return self._cache[path]
        stored, size = self._load(path, generation, epoch)
        self._remember(path, stored, size)
        return stored

    def read_outline(self, generation: int, epoch: int, *, expected: str = "") -> Outline:
        """Returns what a long walk needs of a manifest.

        Outlines are small, and all of them are kept until the job seals an epoch, or `forget_outlines`: a start that
        goes back a week reads each manifest once.

        Args:
            generation: Its generation.
            epoch: Its epoch.
            expected: As `read`.

        Raises:
            NotFoundError, DamagedManifestError, UnsupportedVersionError: As `read`.
        """
        path = manifest_path(generation, epoch)
        known = self._outlines.get(path)
        if known is None or (expected and known.hash != expected):
            whole = self._cache.get(path)
            if whole is not None and expected in ("", whole.hash):
                known = outline_of(whole)
            else:
                known = decode_outline(self._storage.get(path), path=path)
                self._check_place(known.manifest, path, generation, epoch)
            self._outlines[path] = known
        return known

    def forget_outlines(self) -> None:
        """Frees the memory of all outlines: no long walk follows soon."""
        self._outlines.clear()

    def _load(self, path: str, generation: int, epoch: int) -> tuple[StoredManifest, int]:
        """Returns a manifest, and its size in bytes."""
        data = self._storage.get(path)
        stored = decode_manifest(data, path=path)
        self._check_place(stored.manifest, path, generation, epoch)
        return stored, len(data)

    def _check_place(self, manifest: Manifest, path: str, generation: int, epoch: int) -> None:
        if (manifest.job, manifest.generation, manifest.epoch) != (self._job, generation, epoch):
            raise DamagedManifestError(
                f"{path} holds epoch {manifest.epoch} of generation {manifest.generation} of job {manifest.job!r}, not "
                "its own.",
                action="Manifests were copied or renamed; restore the folder from a backup.",
            )

    def read_copy(self, path: str) -> StoredManifest:
        """Returns the manifest that came with a canonical savepoint; it may be of any job.

        Raises:
            NotFoundError: no manifest exists at this path.
            DamagedManifestError: the bytes are damaged.
            UnsupportedVersionError: another release wrote it.
        """
        return decode_manifest(self._storage.get(path), path=path)

    def put(self, manifest: Manifest) -> StoredManifest:
        """Puts a manifest, if its number is free. Together with the read of the floor after it, it is the commit (E6).

        Raises:
            AlreadyExistsError: the number is taken.
            StorageError: the outcome is unknown; read back and compare the incarnation.
        """
        data, digest = encode_manifest(manifest)
        path = manifest_path(manifest.generation, manifest.epoch)
        self._storage.put_if_absent(path, data)
        stored = StoredManifest(manifest, digest)
        self._remember(path, stored, len(data))
        if manifest.kind in ("epoch", "idle"):
            self.forget_outlines()  # the start is over
        return stored

    def chain(self, head: StoredManifest, *, down_to_base: bool = True) -> list[StoredManifest]:
        """Follows predecessors back from `head` and verifies each by its hash.

        Args:
            head: The newest manifest wanted; it is the last of the result.
            down_to_base: End after the epoch of the base that `head` names: the base's own manifest is not read.
                Without a base the chain goes on in the job from which this one was forked. It then ends after the base
                that the restored epoch of that job names. When false, or without any base, it goes back to the very
                first epoch.

        Returns:
            Manifests with consecutive epochs, oldest first, across generations (and jobs, with `open_job`). Empty if
            the base is of the epoch of `head` itself.

        Raises:
            MissingFileError: a manifest in the middle is gone.
            DamagedManifestError: a hash does not match, or a base is not on the lineage of the manifest that names it.
        """
        return self._chain(head, _whole, down_to_base=down_to_base)

    def outlines(self, head: StoredManifest) -> list[Outline]:
        """Follows predecessors as `chain` does, down to the base, and returns outlines, which need little memory.

        Raises:
            MissingFileError, DamagedManifestError: As `chain`.
        """
        return self._chain(outline_of(head), _outlined, down_to_base=True)

    def _chain(
        self, head: Link, read: Callable[["ManifestLog", Place, str], Link], *, down_to_base: bool
    ) -> list[Link]:
        base = self._base_of(head) if down_to_base else None
        if base is not None and base.epoch >= head.manifest.epoch:
            return []
        newest_first = [head]
        while (place := predecessor_of(newest_first[-1].manifest)) is not None:
            if base is not None and place.epoch <= base.epoch:
                break
            predecessor = self._follow(newest_first[-1], place, read)
            if down_to_base and place.job != newest_first[-1].manifest.job:
                base = self._base_of(predecessor)
            newest_first.append(predecessor)
        return newest_first[::-1]

    def _base_of(self, stored: StoredManifest | Outline) -> BaseReference | None:
        """Returns the base that a manifest names; raises DamagedManifestError if the base is not on its lineage."""
        base = stored.manifest.base
        if base is not None and not contains(stored.manifest.lineage, base.generation, base.epoch):
            raise DamagedManifestError(
                f"{self._path_of(stored)} of job {stored.manifest.job!r} names the base of epoch {base.epoch} in "
                f"generation {base.generation}, which is not on its lineage.",
                action="Restore an older checkpoint or savepoint; no correct driver wrote this manifest.",
            )
        return base

    def _follow(self, successor: Link, place: Place, read: Callable[["ManifestLog", Place, str], Link]) -> Link:
        """Reads the predecessor of `successor` and checks that its hash is the one that `successor` names."""
        expected = successor.manifest.predecessor
        where = (
            f"epoch {place.epoch} ({manifest_path(place.generation, place.epoch)} of job {place.job!r}), "
            f"the predecessor of epoch {successor.manifest.epoch} ({self._path_of(successor)})"
        )
        remedy = "Restore an older checkpoint or savepoint, or bring the file back from a backup."
        try:
            stored = read(self._log_of(place.job), place, expected)
        except NotFoundError as error:
            raise MissingFileError(f"The manifest of {where}, is gone.", action=remedy) from error
        except CorruptionError as error:
            raise type(error)(f"The chain breaks at {where}: {error.message}", action=error.action or remedy) from error
        if stored.hash != expected:
            raise DamagedManifestError(
                f"The chain breaks at {where}: its hash is {stored.hash}, expected {expected}.", action=remedy
            )
        return stored

    def _log_of(self, job: str) -> "ManifestLog":
        if job == self._job:
            return self
        if self._open_job is None:
            raise MissingFileError(
                f"The chain of job {self._job!r} goes on in job {job!r}, which was not opened.",
                action=f"Give the storage of {job!r}, or restore from a canonical savepoint, which needs no other job.",
            )
        if job not in self._others:
            self._others[job] = ManifestLog(self._open_job(job), job, open_job=self._open_job, cached=self._cached)
        return self._others[job]

    def _remember(self, path: str, stored: StoredManifest, size: int) -> None:
        self._forget(path)
        self._cache[path], self._sizes[path] = stored, size
        self._bytes += size
        while len(self._cache) > self._cached or (self._bytes > CACHED_BYTES and len(self._cache) > 1):
            self._forget(next(iter(self._cache)))

    def _forget(self, path: str) -> None:
        if self._cache.pop(path, None) is not None:
            self._bytes -= self._sizes.pop(path)

    @staticmethod
    def _path_of(stored: StoredManifest | Outline) -> str:
        return manifest_path(stored.manifest.generation, stored.manifest.epoch)


def _whole(log: ManifestLog, place: Place, expected: str) -> StoredManifest:
    return log.read(place.generation, place.epoch, expected=expected)


def _outlined(log: ManifestLog, place: Place, expected: str) -> Outline:
    return log.read_outline(place.generation, place.epoch, expected=expected)


__all__ = ["CACHED_MANIFESTS", "ManifestLog"]
