"""The same restore again with other borders of key groups, as of another release or another limit of rows.

Files that a log already names stay as they are; new files are written beside them.
"""

from functools import partial
from pathlib import Path

import pytest
from rekey_jobs import DieAt, assert_state, files_below, job_of, start_rewritten

from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import DamagedFileError, RestoreCancelledError
from state_engine.inspect import open_job
from state_engine.log.records import BaseReference
from state_engine.savepoint import trigger_savepoint
from state_engine.storage.open import open_storage
from state_engine.storage.state_reader import read_base

SAME = "epoch:1/3"


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> partial[None]:
    """Returns a function that sets the limit of rows per file."""
    return partial(monkeypatch.setattr, "state_engine.checkpoint.plan.ROWS_PER_FILE")


def base_of(root: str) -> BaseReference:
    head = open_job(root, "flights").newest()
    assert head is not None
    assert head.manifest.base is not None
    return head.manifest.base


def copies_of(root: str) -> dict[str, bytes]:
    return files_below(str(Path(root, "flights", "_restored")))


def bases_of(root: str) -> list[str]:
    return sorted(Path(path).name for path in copies_of(root) if "/base-" in path)


def test_the_state_is_there_whatever_the_borders(root: str, cut: partial[None]) -> None:
    expected = job_of(root).models[1, 3]
    bases = []
    for rows in (500_000, 5, 12, 5):
        cut(rows)
        start_rewritten(root, "flights", SAME, max_parallelism=128)
        assert_state(root, "flights", expected, 128)
        bases.append(base_of(root))
        start_rewritten(root, "flights", "epoch:1/4")
    assert len({base.path for base in bases}) == 3
    assert bases[1] == bases[3], "the same borders are the same files and the same base"
    for base in bases:
        named = read_base(open_storage(root, "flights"), base)
        assert {f"{root}/flights/{file.path}" for file in named.files} <= set(copies_of(root))


@pytest.mark.parametrize("died", [CrashPoint.S2_BEFORE_CLOSING, CrashPoint.S2_CLOSED])
def test_a_restore_that_died_after_its_base_is_continued(root: str, cut: partial[None], died: CrashPoint) -> None:
    """Before the closing manifest any borders may be chosen; after it those of the dead attempt are fixed."""
    expected = job_of(root).models[1, 3]
    with pytest.raises(SystemExit):
        start_rewritten(root, "flights", SAME, max_parallelism=128, crash=DieAt(died))
    copies_before = copies_of(root)
    assert len(bases_of(root)) == 1
    cut(5)
    start_rewritten(root, "flights", SAME, max_parallelism=128)
    assert_state(root, "flights", expected, 128)
    assert copies_of(root).items() >= copies_before.items()
    assert len(bases_of(root)) == (2 if died is CrashPoint.S2_BEFORE_CLOSING else 1)


def test_one_that_is_cancelled_leaves_the_copies_of_another_alone(root: str, cut: partial[None]) -> None:
    job = job_of(root)
    start_rewritten(root, "flights", SAME, max_parallelism=128)
    start_rewritten(root, "flights", "epoch:1/4")
    before = files_below(root)
    cut(5)
    for moment in (0, 10, 20, 30):
        answers = iter([False] * moment + [True] * 1_000)
        with pytest.raises(RestoreCancelledError):
            start_rewritten(root, "flights", SAME, max_parallelism=128, cancelled=partial(next, answers))
        assert files_below(root) == before
    start_rewritten(root, "flights", "epoch:2/4", groups=128)
    assert_state(root, "flights", job.models[1, 3], 128)


@pytest.mark.parametrize("groups", [None, 128])
def test_a_base_under_the_name_that_it_had_is_read_and_left_alone(
    root: str, cut: partial[None], monkeypatch: pytest.MonkeyPatch, groups: int | None
) -> None:
    expected = job_of(root).models[1, 4]
    savepoint_id = trigger_savepoint(root, "flights", kind="canonical").savepoint_id
    with monkeypatch.context() as patch:
        patch.setattr(
            "state_engine.savepoint.adoption.restored_base_path", lambda folder, g, _: f"{folder}/base-g{g}.json"
        )
        start_rewritten(root, "flights", savepoint_id, max_parallelism=groups)
    old, before = base_of(root), copies_of(root)
    assert old.path.endswith(("base-g0.json", "base-g1.json"))
    assert_state(root, "flights", expected, groups or 13)
    start_rewritten(root, "flights", "epoch:1/3")
    cut(5)
    start_rewritten(root, "flights", savepoint_id, max_parallelism=groups)
    assert_state(root, "flights", expected, groups or 13)
    assert base_of(root).path != old.path
    assert copies_of(root).items() >= before.items()


def test_a_copy_that_was_cut_off_since_is_no_copy(root: str) -> None:
    """The error comes before sinks go back and the generation is closed, not when the first task reads the file."""
    job_of(root)
    savepoint_id = trigger_savepoint(root, "flights", kind="canonical").savepoint_id
    start_rewritten(root, "flights", savepoint_id)
    start_rewritten(root, "flights", "epoch:1/3")
    head = open_job(root, "flights").newest()
    copied = next(Path(path) for path in sorted(copies_of(root)) if path.endswith(".parquet"))
    copied.write_bytes(copied.read_bytes()[:-1])
    with pytest.raises(DamagedFileError, match=copied.name):
        start_rewritten(root, "flights", savepoint_id)
    assert open_job(root, "flights").newest() == head


def test_a_manifest_of_other_bytes_is_no_copy_of_the_source(root: str) -> None:
    job_of(root)
    start_rewritten(root, "flights", SAME, max_parallelism=128)
    start_rewritten(root, "flights", "epoch:1/4")
    [sealed] = Path(root, "flights", "_restored").rglob("epoch.json")
    sealed.write_bytes(sealed.read_bytes() + b" ")
    with pytest.raises(DamagedFileError, match=r"epoch\.json holds other bytes"):
        start_rewritten(root, "flights", SAME, max_parallelism=128)
