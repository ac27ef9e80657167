"""A restore that is cancelled ends soon, however much is left to do, and leaves no files."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from canonical_jobs import NoSinks
from rekey_jobs import assert_state, files_below, job_of

from state_engine.epoch.look import newest
from state_engine.errors import RestoreCancelledError
from state_engine.savepoint import restore_key_groups, trigger_savepoint
from state_engine.savepoint.restore import JobRestore
from state_engine.storage.local import LocalStorage
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock

SECONDS_PER_FILE = 1.0
SOON_S = 5.0
AFTER = 2
"""The number of state files that are touched before the restore is cancelled."""


class SlowDisk:
    """A disk that is slow for each state file; cancels the restore after `AFTER` of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.touched, self.given_up_at = 0, 0.0
        self._lock = threading.Lock()
        for name in ("get", "get_range", "put_exclusive", "put_if_absent"):
            monkeypatch.setattr(LocalStorage, name, self._slowed(getattr(LocalStorage, name)))

    def _slowed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def slowed(storage: LocalStorage, path: str, *given: Any) -> Any:
            if path.endswith((".arrow", ".parquet")) and "_checkpoints" not in path:
                with self._lock:
                    self.touched += 1
                    if self.touched == AFTER:
                        self.given_up_at = time.monotonic()
                time.sleep(SECONDS_PER_FILE)
            return call(storage, path, *given)

        return slowed

    def cancelled(self) -> bool:
        return self.touched >= AFTER


def restored(root: str, source: str, cancelled: Callable[[], bool] | None = None, **options: Any) -> Any:
    clock = ManualClock(1_700_000_200_000)
    return JobRestore(root, "flights", source, lambda *_: NoSinks(), clock=clock, cancelled=cancelled, **options).run()


def checked(job: JobBuilder) -> Callable[..., Any]:
    return lambda **given: restored(job.root, "epoch:1/9", **given)


def copied(job: JobBuilder) -> Callable[..., Any]:
    taken = trigger_savepoint(job.root, "flights", kind="canonical", epoch=9)
    return lambda **given: restored(job.root, taken.savepoint_id, **given)


def rekeyed(job: JobBuilder) -> Callable[..., Any]:
    return lambda **given: restored(job.root, "epoch:1/9", max_parallelism=128, **given)


def key_groups(job: JobBuilder) -> Callable[..., Any]:
    return lambda **given: restore_key_groups(job.root, "flights", "epoch:1/9", [(0, 12)], **given)


@pytest.mark.parametrize("way", [checked, copied, rekeyed, key_groups])
def test_a_restore_that_is_given_up_ends_soon_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[JobBuilder], Callable[..., Any]]
) -> None:
    job = job_of(str(tmp_path), epochs=10, published=())
    restore = way(job)
    before, head = files_below(job.root), newest(job.log)
    with monkeypatch.context() as patch:
        disk = SlowDisk(patch)
        with pytest.raises(RestoreCancelledError):
            restore(cancelled=disk.cancelled)
        ended = time.monotonic()
    assert disk.given_up_at, "the restore was not over before"
    assert ended - disk.given_up_at < SOON_S
    assert files_below(job.root) == before, "no copy, no lease, no claim"
    assert newest(job.log) == head
    restore()
    assert_state(job.root, "flights", job.models[1, 9], 128 if way is rekeyed else 13)
