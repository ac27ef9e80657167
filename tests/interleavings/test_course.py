"""A refusal is accepted because of what others did, and for no other reason."""

from types import SimpleNamespace
from typing import Any

import pytest
from course import Course, Lost, Seal

from state_engine.errors import (
    CondemnedError,
    FencedError,
    MissingFileError,
    NotFoundError,
    NothingToRestoreError,
    RestoreError,
)
from state_engine.log.paths import CONDEMNED
from state_engine.testing.interleaving import Call

PIN, NEEDED = "_savepoints/old/_pin.json", "changes/needed"


def course(
    *calls: tuple[str, str, str], seals: tuple[tuple[int, str, int, str], ...] = (), held: int | None = None
) -> Course:
    """Makes a course of calls (process, name, path) and seals (at which call, process, incarnation number, kind)."""

    def manifest(number: int, kind: str) -> Any:
        return SimpleNamespace(job="job", incarnation_number=number, kind=kind)

    return Course(
        trace=[Call(process, name, "memory://job", path) for process, name, path in calls],
        seals=[Seal(at, process, manifest(number, kind)) for at, process, number, kind in seals],
        job="job",
        number=3,
        held_since=lambda: held,
        pin=PIN,
        needed=frozenset({NEEDED}),
    )


def looks(*processes: str) -> list[tuple[str, str, str]]:
    return [(process, "get", "x") for process in processes]


@pytest.mark.parametrize(
    ("number", "at", "fenced"),
    [(4, 1, True), (5, 1, True), (3, 1, False), (4, 0, False), (4, 3, False)],
    ids=["the same number", "a higher one", "an older one", "before its start", "after its end"],
)
def test_a_driver_is_fenced_by_a_start_of_no_lower_number_meanwhile(number: int, at: int, fenced: bool) -> None:
    calls = looks("driver", "rewind", "driver", "rewind") if at else looks("rewind", "driver", "driver")
    run = course(*calls, seals=((at, "rewind", number, "claim"),))
    assert run.may_end_with("driver", FencedError("")) is fenced


def test_a_driver_alone_is_never_refused() -> None:
    run = course(*looks("driver", "driver"), seals=((0, "driver", 4, "claim"),))
    assert not run.may_end_with("driver", FencedError(""))
    assert not run.may_end_with("driver", NotFoundError(""))


def test_a_driver_misses_a_file_only_if_it_was_replaced_and_retention_freed_something() -> None:
    replaced = ((1, "rewind", 4, "claim"),)
    freed = ("retention", "delete", "y")
    assert course(*looks("driver", "rewind"), freed, *looks("driver"), seals=replaced).may_end_with(
        "driver", NotFoundError("")
    )
    assert not course(*looks("driver", "rewind", "driver"), seals=replaced).may_end_with("driver", NotFoundError(""))
    assert not course(*looks("driver"), freed, *looks("driver")).may_end_with("driver", NotFoundError(""))


@pytest.mark.parametrize("error", [NothingToRestoreError(""), CondemnedError(""), MissingFileError("")])
def test_a_restore_of_key_groups_is_refused_before_it_has_its_lease(error: Exception) -> None:
    condemns = ("retention", "put_if_absent", f"{CONDEMNED}/1")
    assert course(*looks("groups"), condemns, *looks("groups")).may_end_with("groups", error)
    assert not course(*looks("groups"), condemns, *looks("groups"), held=1).may_end_with("groups", error)
    assert not course(*looks("groups", "retention", "groups")).may_end_with("groups", error)


def test_a_restore_of_key_groups_may_miss_its_savepoint_but_not_what_that_needs() -> None:
    unpinned = course(*looks("groups"), ("retention", "delete", PIN), *looks("groups"), held=1)
    unpinned.check_leased()
    assert unpinned.may_end_with("groups", NothingToRestoreError(""))
    assert not unpinned.may_end_with("groups", MissingFileError(""))
    with pytest.raises(Lost, match=NEEDED):
        course(*looks("groups"), ("retention", "delete", NEEDED), *looks("groups"), held=1).check_leased()
    course(*looks("groups"), ("retention", "delete", NEEDED), held=1).check_leased()  # the restore has ended


def test_a_restore_of_key_groups_waits_for_one_of_the_whole_job() -> None:
    assert course(*looks("rewind", "groups"), seals=((0, "rewind", 4, "closing"),)).may_end_with(
        "groups", RestoreError("")
    )
    assert not course(*looks("rewind", "groups"), seals=((0, "rewind", 4, "claim"),)).may_end_with(
        "groups", RestoreError("")
    )


def test_retention_stops_only_for_what_another_one_deleted() -> None:
    deletes = ("cleaner", "delete", "y")
    assert course(*looks("retention"), deletes, *looks("retention")).may_end_with("retention", NotFoundError(""))
    assert not course(deletes, *looks("retention", "cleaner")).may_end_with("retention", NotFoundError(""))


def test_no_other_process_is_ever_refused() -> None:
    run = course(*looks("fork"), ("retention", "delete", "y"), *looks("fork"), seals=((0, "rewind", 9, "claim"),))
    for process in ("fork", "import", "dispose"):
        assert not run.may_end_with(process, NotFoundError(""))
