"""Each rule of the protocol is removed in turn, and the schedules find what is lost without it."""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import small_job
from bounded import preempted_once
from everything import Lost
from playing import Replay

from state_engine.checkpoint import attempt
from state_engine.checkpoint.retention import snapshot, steps
from state_engine.errors import LakestateError
from state_engine.savepoint import native
from state_engine.savepoint.group_restore import GroupRestorer
from state_engine.storage.manifest_log import ManifestLog
from state_engine.testing.interleaving import WRITES, Interleaving, Schedule

Patch = pytest.MonkeyPatch


def in_processes(patch: Patch, owner: Any, name: str, weak: Callable[..., Any]) -> None:
    """Replaces a function by a weaker one in the processes; the verification in the main thread keeps the sound one."""
    sound = getattr(owner, name)

    def either(*args: Any, **kwargs: Any) -> Any:
        in_main = threading.current_thread() is threading.main_thread()
        return (sound if in_main else weak)(*args, **kwargs)

    patch.setattr(owner, name, either)


def pin_is_not_compared_with_the_lists(patch: Patch) -> None:
    in_processes(patch, native, "ensure_kept", lambda *_: None)


def pin_is_written_after_its_verification(patch: Patch) -> None:
    def write_pin(
        root: str, storage: Any, ids: Any, draft: Any, head: Any, noted_in: Any = None, log: Any = None
    ) -> Any:
        native.ensure_kept(root, head, "A savepoint")
        native.verify_handles(storage, draft)
        return native._put_pin(storage, ids, draft, noted_in)

    from state_engine.savepoint import trigger

    in_processes(patch, trigger, "write_pin", write_pin)


def retention_does_not_look_again(patch: Patch) -> None:
    sound, seen = steps.take_snapshot, threading.local()

    def take_snapshot(*args: Any) -> Any:
        seen.found = getattr(seen, "found", None) or sound(*args)
        return seen.found

    in_processes(patch, steps, "take_snapshot", take_snapshot)


def retention_reads_no_leases(patch: Patch) -> None:
    in_processes(patch, snapshot, "read_leases", lambda *_: [])


def retention_does_not_see_forks(patch: Patch) -> None:
    in_processes(patch, snapshot, "_forked", lambda *_: [])


def retention_raises_no_floor(patch: Patch) -> None:
    in_processes(patch, steps, "raise_floor", lambda *_: None)


def floors_are_not_read(patch: Patch) -> None:
    in_processes(patch, ManifestLog, "floors", lambda *_: {})


def restore_takes_no_lease(patch: Patch) -> None:
    in_processes(patch, small_job, "kept_for_start", lambda *_, **__: nullcontext())


def restore_of_key_groups_takes_no_lease(patch: Patch) -> None:
    in_processes(patch, GroupRestorer, "kept", lambda *_: nullcontext())


def checkpoint_has_neither_lease_nor_fence(patch: Patch) -> None:
    """Either is enough here: the fence once another generation has a checkpoint, the lease until then."""
    in_processes(patch, attempt, "files_kept", lambda *_: nullcontext())
    in_processes(patch, attempt, "Fence", lambda *_: None)


def pin_goes_last(patch: Patch) -> None:
    patch.setattr(steps, "_ORDER", {"manifest": 1, "savepoint": 3})


TAKEN_OVER = ("rewind", "rewind/publish", "retention")
# what is weakened; the processes; which one is preempted; by which ones; which run first
HUNTS: list[tuple[Callable[[Patch], None], list[str], str, Sequence[str], Sequence[str]]] = [
    (pin_is_not_compared_with_the_lists, ["past", "retention"], "retention", ("past",), ()),
    (pin_is_written_after_its_verification, ["past", "retention"], "past", ("retention",), ()),
    (retention_does_not_look_again, ["past", "retention"], "retention", ("past",), ()),
    (retention_reads_no_leases, ["late-fork", "retention"], "late-fork", ("retention",), ()),
    (retention_does_not_see_forks, ["late-fork", "retention"], "retention", ("late-fork",), ()),
    (restore_takes_no_lease, ["late-fork", "retention"], "late-fork", ("retention",), ()),
    (restore_of_key_groups_takes_no_lease, ["groups", "retention"], "groups", ("retention",), ()),
    (retention_raises_no_floor, ["driver", "rewind", "retention"], "driver", TAKEN_OVER, ()),
    (floors_are_not_read, ["driver", "rewind", "retention"], "driver", TAKEN_OVER, ()),
    (
        checkpoint_has_neither_lease_nor_fence,
        ["driver", "savepoint", "rewind", "retention"],
        "driver/publish",
        ("savepoint", *TAKEN_OVER),
        ("driver",),
    ),
]


AS_IT_IS = {str(hunt[1:]): hunt[1:] for hunt in HUNTS}


@pytest.mark.parametrize(("names", "outer", "meanwhile", "first"), AS_IT_IS.values())
def test_with_all_rules_nothing_is_lost(
    replay: Replay, names: list[str], outer: str, meanwhile: Sequence[str], first: Sequence[str]
) -> None:
    ran = preempted_once(partial(replay, names), outer, meanwhile, first)
    assert 3 < ran.schedules <= ran.places


@pytest.mark.parametrize(("weaken", "names", "outer", "meanwhile", "first"), HUNTS, ids=[h[0].__name__ for h in HUNTS])
def test_the_schedules_find_what_is_lost_without_it(
    replay: Replay,
    monkeypatch: pytest.MonkeyPatch,
    weaken: Callable[[Patch], None],
    names: list[str],
    outer: str,
    meanwhile: Sequence[str],
    first: Sequence[str],
) -> None:
    weaken(monkeypatch)
    with pytest.raises((Lost, LakestateError)):
        preempted_once(partial(replay, names), outer, meanwhile, first)


def test_a_savepoint_that_a_policy_removes_goes_from_sight_first(
    replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(call: int) -> Interleaving:
        stage = replay.template.copy("memory://interleavings/pin-goes-last")
        try:
            played = stage.play(["retention"], Schedule(kills=(("retention", call), ("retention+", 1))))
            stage.verify()
        finally:
            stage.forget()
        return played

    def die_at_each_call() -> None:
        calls = die(1_000_000).calls("retention")
        for call in [number for number, call in enumerate(calls, 2) if call.name in WRITES][::3]:
            die(call)

    die_at_each_call()
    pin_goes_last(monkeypatch)
    with pytest.raises(Lost):
        die_at_each_call()
