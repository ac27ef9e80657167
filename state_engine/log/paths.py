"""Builds and parses the names of all files of a job, relative to its root. Padded numbers make names sort as numbers.

The names of uids, attempts and outputs are checked where they are declared (`storage.port.check_name`).
"""

import hashlib
import re

from state_engine.log.records import StateSchema

EPOCHS = "_epochs"
CHECKPOINTS = "_checkpoints"
SAVEPOINTS = "_savepoints"
METADATA = "_metadata"
PIN = "pin.json"
IN_USE = "_in_use"
RESTORED = "_restored"
SPARK = "_spark"
OPERATOR = "_operator"
FLOORS = f"{EPOCHS}/floors"
BIRTH = f"{EPOCHS}/birth.json"
RETENTION = "_retention"
CONDEMNED = f"{RETENTION}/condemned"
LEASES = f"{RETENTION}/leases"

_LONGEST = 64

_GENERATION = re.compile(r"g(\d{6,})")
_MANIFEST = re.compile(r"_epochs/g(\d{6,})/e(\d{10,})\.json")
_FLOOR = re.compile(r"_epochs/floors/g(\d{6,})-e(\d{10,})\.json")
_BESIDE = re.compile(r"_epochs/g(\d{6,})/(?:changes|bases)/e(\d{10,})-[^/]+")
_STATE_FILE = re.compile(r"(?!_(?!operator/))(?:[^/]+/)+part-g(\d{6,})-e(\d{10,})-[^/]+\.(?:parquet|stream)")


def generation_folder(generation: int) -> str:
    """Returns the folder of a generation: its manifests, and below them change files and bases."""
    return f"{EPOCHS}/g{generation:06d}"


def manifest_path(generation: int, epoch: int) -> str:
    """Returns `_epochs/g000001/e0000000042.json`."""
    return f"{generation_folder(generation)}/e{epoch:010d}.json"


def changes_folder(generation: int) -> str:
    """Returns the folder of the change files and staged outputs of a generation."""
    return f"{generation_folder(generation)}/changes"


def change_path(generation: int, epoch: int, uid: str, subtask: int, new_id: str) -> str:
    """Returns a path for a change file; each file gets its own `new_id`, since a failed put may have made its file."""
    return f"{changes_folder(generation)}/e{epoch:010d}-{uid}-{subtask}-{new_id}.arrow"


def output_path(generation: int, epoch: int, uid: str, subtask: int, attempt: str, output: str) -> str:
    """Returns the path of one attempt's staged output for a sink that is not a Delta table."""
    suffix = f"{_short(uid)}-{subtask}-{attempt}-{_short(output)}"
    return f"{changes_folder(generation)}/e{epoch:010d}-{suffix}.parquet"


def _short(name: str) -> str:
    """Shortens a name for use in a file name, which file systems limit to 255 bytes in all."""
    return (
        name if len(name) <= _LONGEST else f"{name[: _LONGEST - 33]}~{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    )


def base_path(generation: int, epoch: int, base_id: str) -> str:
    """Returns the path of a base: the list of the files that hold the fold up to an epoch."""
    return f"{generation_folder(generation)}/bases/e{epoch:010d}-{base_id}.json"


def restored_base_path(folder: str, generation: int, checksum: str) -> str:
    """Returns the path of the base of copies that a restore made; the same content has the same path.

    Args:
        folder: That of the copies (`restored_folder`).
        generation: Of the base.
        checksum: Of the base.
    """
    return f"{folder}/base-g{generation}-{checksum[:16]}.json"


def savepoint_folder(savepoint_id: str) -> str:
    """Returns the folder of a savepoint."""
    return f"{SAVEPOINTS}/{savepoint_id}"


def pin_path(savepoint_id: str) -> str:
    """Returns the path of the pin of a native savepoint."""
    return f"{savepoint_folder(savepoint_id)}/{PIN}"


def metadata_path(savepoint_id: str) -> str:
    """Returns the path of the metadata of a canonical savepoint that is stored below the job's root."""
    return f"{savepoint_folder(savepoint_id)}/{METADATA}"


def elsewhere_path(savepoint_id: str) -> str:
    """Returns the path of the note about a canonical savepoint that was written to another directory."""
    return f"{savepoint_folder(savepoint_id)}/elsewhere.json"


def restored_folder(savepoint_id: str, digest: str) -> str:
    """Returns the folder to which the files of a canonical savepoint are copied when a job goes on from them.

    Args:
        savepoint_id: The savepoint.
        digest: Hash of its metadata: the id alone does not distinguish savepoints of different roots.
    """
    return f"{RESTORED}/{savepoint_id}-{digest[:16]}"


def floor_path(generation: int, epoch: int) -> str:
    """Returns the path of a floor: no number of the generation up to this epoch may be sealed any more."""
    return f"{FLOORS}/g{generation:06d}-e{epoch:010d}.json"


def condemned_path(list_id: str) -> str:
    """Returns the path of a list of files that retention is going to delete."""
    return f"{CONDEMNED}/{list_id}.json"


def lease_path(lease_id: str) -> str:
    """Returns the path of a lease: what a restore or a reader needs for a while."""
    return f"{LEASES}/{lease_id}.json"


def table_path(uid: str, state: str) -> str:
    """Returns the Delta table of a keyed state or of timers."""
    return f"{uid}/{state}"


def operator_table_path(uid: str, state: str) -> str:
    """Returns the Delta table of an operator or broadcast state."""
    return f"{OPERATOR}/{uid}/{state}"


def state_stream_path(folder: str, stem: str, new_id: str) -> str:
    """Returns a path for a state stream; each file gets its own `new_id`: a failed attempt may have made its file.

    Args:
        folder: Of the state: `state_table_path`, though no table need exist there.
        stem: Which part of which publish it is.
        new_id: As for `change_path`.
    """
    return f"{folder}/{stem}.{new_id}.stream"


def state_table_path(schema: StateSchema) -> str:
    """Returns the Delta table of a state, by its kind."""
    of_operator = schema.kind in ("operator", "broadcast")
    return (operator_table_path if of_operator else table_path)(schema.uid, schema.name)


def parse_manifest_path(path: str) -> tuple[int, int] | None:
    """Returns (generation, epoch) of a manifest's path, None for any other path."""
    match = _MANIFEST.fullmatch(path)
    if match is None:
        return None
    generation, epoch = int(match[1]), int(match[2])
    return (generation, epoch) if manifest_path(generation, epoch) == path else None


def parse_floor_path(path: str) -> tuple[int, int] | None:
    """Returns (generation, epoch) of a floor's path, None for any other path."""
    match = _FLOOR.fullmatch(path)
    return (int(match[1]), int(match[2])) if match is not None else None


def parse_beside_manifest(path: str) -> tuple[int, int] | None:
    """Returns (generation, epoch) of a change file, a staged output or a base, None for any other path."""
    match = _BESIDE.fullmatch(path)
    return (int(match[1]), int(match[2])) if match is not None else None


def parse_state_file(path: str) -> tuple[int, int] | None:
    """Returns the (generation, epoch) of the publish that wrote a file of a state, None for any other path."""
    match = _STATE_FILE.fullmatch(path)
    return (int(match[1]), int(match[2])) if match is not None else None


def parse_generation_folder(name: str) -> int | None:
    """Returns the generation of a folder's name such as `g000001`, None for any other name."""
    match = _GENERATION.fullmatch(name)
    return int(match[1]) if match is not None and name == f"g{int(match[1]):06d}" else None


__all__ = [
    "BIRTH",
    "CHECKPOINTS",
    "CONDEMNED",
    "EPOCHS",
    "FLOORS",
    "IN_USE",
    "LEASES",
    "METADATA",
    "OPERATOR",
    "PIN",
    "RESTORED",
    "RETENTION",
    "SAVEPOINTS",
    "SPARK",
    "base_path",
    "change_path",
    "changes_folder",
    "condemned_path",
    "elsewhere_path",
    "floor_path",
    "generation_folder",
    "lease_path",
    "manifest_path",
    "metadata_path",
    "operator_table_path",
    "output_path",
    "parse_beside_manifest",
    "parse_floor_path",
    "parse_generation_folder",
    "parse_manifest_path",
    "parse_state_file",
    "pin_path",
    "restored_base_path",
    "restored_folder",
    "savepoint_folder",
    "state_stream_path",
    "state_table_path",
    "table_path",
]
