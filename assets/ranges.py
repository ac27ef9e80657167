"""Key groups of a savepoint as partitions: sixteen ranges, for any number of key groups.

Names of partitions are fixed when a code location is loaded, but the number of key groups is known only when a
savepoint is chosen. So a name says which sixteenth it is, and the run's metadata say which key groups these are.
"""

from collections.abc import Iterable
from typing import NamedTuple

import dagster as dg

from lakestate.assets.failures import refused
from lakestate.assets.names import savepoint_partitions
from state_engine.key_groups import KeyGroupRange, range_of

RANGES = 16
SAVEPOINT, KEY_GROUPS = "savepoint", "key_groups"
_BACKFILL = "dagster/backfill"


class Chosen(NamedTuple):
    """What a run is to restore: the partition key of the savepoint, and sixteenths of its key groups, ascending."""

    savepoint: str
    ranges: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all of the savepoint was chosen."""
        return len(self.ranges) == RANGES


def range_name(index: int) -> str:
    """Returns the partition key of one range; they sort as their key groups do."""
    return f"range_{index:02d}_of_{RANGES}"


def key_groups_of(index: int, max_parallelism: int) -> KeyGroupRange:
    """Returns the key groups of a range; with fewer than sixteen key groups, some ranges are empty."""
    return range_of(index, RANGES, max_parallelism)


def restore_partitions(job: str) -> dg.MultiPartitionsDefinition:
    """Returns savepoints × ranges of key groups."""
    ranges = dg.StaticPartitionsDefinition([range_name(index) for index in range(RANGES)])
    return dg.MultiPartitionsDefinition({SAVEPOINT: savepoint_partitions(job), KEY_GROUPS: ranges})


def chosen_of(context: dg.AssetExecutionContext, job: str) -> Chosen:
    """Returns what a run is to restore.

    Raises:
        Failure: Nothing was chosen, or several savepoints. Those of other runs of the same backfill count, too.
    """
    if not (context.has_partition_key or context.has_partition_key_range):
        raise refused(
            "No savepoint was chosen for the restore.",
            action="Choose a savepoint and ranges of its key groups as partitions.",
        )
    keys = [_dimensions(job, key) for key in context.partition_keys]
    savepoints = {savepoint for savepoint, _ in keys} | _savepoints_of_backfill(context, job)
    if len(savepoints) > 1:
        raise refused(
            f"The selection spans {len(savepoints)} savepoints: {', '.join(sorted(savepoints))}. A key group can be "
            "restored from only one of them, so nothing was restored.",
            action="Launch it again with one savepoint.",
        )
    return Chosen(savepoints.pop(), tuple(sorted({index for _, index in keys})))


def _dimensions(job: str, key: str) -> tuple[str, int]:
    dimensions = restore_partitions(job).get_partition_key_from_str(key).keys_by_dimension
    return dimensions[SAVEPOINT], int(dimensions[KEY_GROUPS].split("_")[1])


def _savepoints_of_backfill(context: dg.AssetExecutionContext, job: str) -> set[str]:
    """Returns the savepoints of the whole backfill: Dagster may give each of them a run of its own."""
    backfill_id = context.run.tags.get(_BACKFILL)
    backfill = context.instance.get_backfill(backfill_id) if backfill_id is not None else None
    data = backfill.asset_backfill_data if backfill is not None else None
    if data is None:
        return set()
    subset = data.target_subset.partitions_subsets_by_asset_key.get(context.asset_key)
    return {_dimensions(job, key)[0] for key in subset.get_partition_keys()} if subset is not None else set()


def joined_names(ranges: Iterable[KeyGroupRange]) -> str:
    """Returns ranges of key groups as people write them: `0–7, 16`."""
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in ranges)


__all__ = [
    "KEY_GROUPS",
    "RANGES",
    "SAVEPOINT",
    "Chosen",
    "chosen_of",
    "joined_names",
    "key_groups_of",
    "range_name",
    "restore_partitions",
]
