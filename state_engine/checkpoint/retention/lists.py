"""Lists of condemned files: writes them, and decides how long they may be acted upon and when they are removed."""

from collections.abc import Generator, Iterable

from state_engine.checkpoint.kept import read_condemned
from state_engine.checkpoint.retention.decision import Removal
from state_engine.checkpoint.retention.policy import DAY_MS, RetentionPolicy
from state_engine.clock import Clock, Ids
from state_engine.log.paths import condemned_path
from state_engine.log.retention_records import Condemned, CondemnedFile, encode_condemned
from state_engine.storage.port import CheckpointStorage

FILES_PER_LIST = 10_000
DELETING_MS = 3_600_000
"""For this long after its grace time a list may be acted upon. After the same time again it is removed, whatever is
left of its files: a process that slept in between finds that its time is over. A later run writes a new list."""

FORGOTTEN_MS = 40 * DAY_MS
"""For this long after its grace time a list stays if the policies of later runs do not have its rule. Strays, for
example, may be searched for once a month, while the retention of each night does not have that rule."""


def condemn(
    storage: CheckpointStorage, job: str, removals: Iterable[Removal], grace_ms: int, clock: Clock, ids: Ids
) -> Generator[str, None, int]:
    """Writes lists of the files to delete, without those that a valid list has already; yields before each list.

    A list is not valid any more when its time is over. A run that comes so late, for example once a day, condemns the
    files of that list anew, without grace time: they have had theirs. The second look comes after the new list, so it
    sees any protection of a file that was written meanwhile.

    Returns:
        How many files were condemned for the first time.
    """
    now = clock.now_ms()
    listed, expired = set[str](), set[str]()
    for one in read_condemned(storage):
        begins = one.condemned_at + one.grace_ms
        if now > begins + DELETING_MS:
            expired |= {file.path for file in one.files}
        elif begins <= now + grace_ms:  # a list that waits longer than this plan does not replace its lists
            listed |= {file.path for file in one.files}
    unlisted = [removal for removal in removals if removal.path not in listed]
    lists: dict[tuple[str, int], list[CondemnedFile]] = {}
    for removal in unlisted:
        file = CondemnedFile(path=removal.path, bytes=removal.bytes, reason=removal.reason)
        lists.setdefault((removal.rule, 0 if removal.path in expired else grace_ms), []).append(file)
    for (rule, wait_ms), files in lists.items():
        for first in range(0, len(files), FILES_PER_LIST):
            yield "condemn"
            condemned = Condemned(
                list_id=ids.new_id(),
                job=job,
                condemned_at=clock.now_ms(),
                grace_ms=wait_ms,
                files=tuple(files[first : first + FILES_PER_LIST]),
                rule=rule,
            )
            storage.put_if_absent(condemned_path(condemned.list_id), encode_condemned(condemned))
    return sum(removal.path not in expired for removal in unlisted)


def is_forgotten(condemned: Condemned, policy: RetentionPolicy | None, now_ms: int) -> bool:
    """Returns whether to remove a list although files of it exist: they are needed after all, or no run deletes them.

    Args:
        condemned: The list.
        policy: Of the current run.
        now_ms: The present.
    """
    stays = 2 * DELETING_MS if is_answered(condemned, policy) else FORGOTTEN_MS
    return now_ms > condemned.condemned_at + condemned.grace_ms + stays


def is_answered(condemned: Condemned, policy: RetentionPolicy | None) -> bool:
    """Returns whether a run for a policy finds the files of a list, if they still may be deleted. None finds all."""
    return policy is None or not condemned.rule or condemned.rule in policy.rules


__all__ = ["DELETING_MS", "FILES_PER_LIST", "FORGOTTEN_MS", "condemn", "is_answered", "is_forgotten"]
