"""Lists of condemned files: who writes one, how long it may be acted upon, and who may forget it."""

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
"""How long behind its grace time a list may be acted upon. Another such time later it is removed, whatever is left: a
process that slept in between finds that its time is over. A run that comes later writes a new list of the files."""

FORGOTTEN_MS = 40 * DAY_MS
"""How long behind its grace time a list stays whose rule the policies of later runs do not have: strays may be looked
for once a month, and retention each night does not know of them."""


def condemn(
    storage: CheckpointStorage, job: str, removals: Iterable[Removal], grace_ms: int, clock: Clock, ids: Ids
) -> Generator[str, None, int]:
    """Writes lists of what goes, unless a list stands for it already; yields in front of each.

    A list whose time is over stands for nothing. Who comes that late, such as once a day, condemns its files anew; they
    have had their grace time. The look behind it is as late as the new list, so it sees who protected one meanwhile.

    Returns:
        How many files were condemned for the first time.
    """
    now = clock.now_ms()
    standing, over = set[str](), set[str]()
    for one in read_condemned(storage):
        begins = one.condemned_at + one.grace_ms
        if now > begins + DELETING_MS:
            over |= {file.path for file in one.files}
        elif begins <= now + grace_ms:  # one that waits longer than this plan does not stand for it
            standing |= {file.path for file in one.files}
    going = [removal for removal in removals if removal.path not in standing]
    lists: dict[tuple[str, int], list[CondemnedFile]] = {}
    for removal in going:
        file = CondemnedFile(path=removal.path, bytes=removal.bytes, reason=removal.reason)
        lists.setdefault((removal.rule, 0 if removal.path in over else grace_ms), []).append(file)
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
    return sum(removal.path not in over for removal in going)


def is_forgotten(condemned: Condemned, policy: RetentionPolicy | None, now_ms: int) -> bool:
    """Says whether a list goes although files of it are there: somebody needs them after all, or nobody comes for them.

    Args:
        condemned: The list.
        policy: Of the run that asks.
        now_ms: The present.
    """
    stays = 2 * DELETING_MS if is_answered(condemned, policy) else FORGOTTEN_MS
    return now_ms > condemned.condemned_at + condemned.grace_ms + stays


def is_answered(condemned: Condemned, policy: RetentionPolicy | None) -> bool:
    """Says whether a run for a policy finds what a list names, if it still may go. None finds everything."""
    return policy is None or not condemned.rule or condemned.rule in policy.rules


__all__ = ["DELETING_MS", "FILES_PER_LIST", "FORGOTTEN_MS", "condemn", "is_answered", "is_forgotten"]
