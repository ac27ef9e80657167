"""The durable floor of each generation: up to it retention may delete manifests, and no process may seal any more.

Documents never change: a floor is raised by putting a higher one, and the lower ones are deleted afterwards. A process
that seals reads the floors after each put, from the names alone (`ManifestLog.floors`).
"""

from contextlib import suppress

from state_engine.errors import AlreadyExistsError, NotFoundError
from state_engine.log.paths import FLOORS, floor_path, parse_floor_path
from state_engine.log.retention_records import Floor, decode_floor, encode_floor
from state_engine.storage.port import CheckpointStorage


def read_floors(storage: CheckpointStorage) -> list[Floor]:
    """Returns all floors, also those that a higher one has replaced.

    Raises:
        DamagedFileError: One is not what was written.
    """
    floors = []
    for info in storage.list(FLOORS, recursive=False):
        if parse_floor_path(info.path) is not None:
            with suppress(NotFoundError):  # a higher one has just replaced it
                floors.append(decode_floor(storage.get(info.path), path=info.path))
    return floors


def raise_floor(storage: CheckpointStorage, floor: Floor) -> None:
    """Makes a floor durable and removes the lower ones of its generation; nothing changes if it is that high already.

    Raises:
        StorageError: It is not known whether it is raised; raising it again is safe.
    """
    lower = []
    for info in storage.list(FLOORS, recursive=False):
        place = parse_floor_path(info.path)
        if place is not None and place[0] == floor.generation:
            if place[1] >= floor.epoch:
                with suppress(AlreadyExistsError):  # the process that raised it may have died before it was durable
                    storage.put_if_absent(info.path, storage.get(info.path))
                return
            lower.append(info.path)
    with suppress(AlreadyExistsError):
        storage.put_if_absent(floor_path(floor.generation, floor.epoch), encode_floor(floor))
    for path in lower:
        storage.delete(path)


__all__ = ["raise_floor", "read_floors"]
