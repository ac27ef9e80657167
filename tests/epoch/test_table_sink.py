"""A table sink commits each epoch once, whichever other process commits; and what a restore does to it."""

from collections.abc import Callable
from functools import partial

import pytest

from state_engine.epoch.sink_moves import transaction_id, transaction_version
from state_engine.epoch.table_sink import TableSink, standing
from state_engine.errors import MissingFileError, NotFoundError, SinkError, SinkRewindError, StorageError
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path
from state_engine.log.records import Ack, Manifest, OperatorEpoch, OutputFile, Span
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.table_log import CONFLICTS
from state_engine.testing.simulated_table import SimulatedTable

APP = transaction_id("job", "out")


class Stage:
    """A log with epochs that each staged one file for the sink `out`, and its table."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.log = ManifestLog(self.storage, "job")
        self.table = SimulatedTable()
        self.table.create()
        self.sink = TableSink("job", "out", self.table, self.log, lambda: 7)

    def seal(self, epoch: int, before: StoredManifest | None, generation: int = 1, *spans: Span) -> StoredManifest:
        path = f"g{generation}-e{epoch}"
        self.table.write_file(path, ((epoch, "row", generation),))
        output = OutputFile(output="out", path=path, in_table=True, length=1, checksum="", rows=1)
        ack = Ack(uid="op", subtask=0, attempt=path, records_in=1, records_out=1, outputs=(output,))
        operator = OperatorEpoch(parallelism=1, max_parallelism=13, acks=(ack,))
        return self.log.put(
            Manifest(
                job="job", generation=generation, epoch=epoch, kind="epoch", incarnation="a", incarnation_number=1,
                predecessor=before.hash if before else "", processing_time=epoch, operators={"op": operator},
                lineage=spans or (Span(generation=1, first=1),),
            )
        )  # fmt: skip

    def sealed(self, epochs: int) -> list[StoredManifest]:
        manifests: list[StoredManifest] = []
        for epoch in range(1, epochs + 1):
            manifests.append(self.seal(epoch, manifests[-1] if manifests else None))
        return manifests

    def commit(self, stored: StoredManifest) -> None:
        files = [o for op in stored.manifest.operators.values() for ack in op.acks for o in ack.outputs]
        self.sink.commit(stored.manifest.generation, stored.manifest.epoch, files)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def overtaken(stage: Stage, by: Callable[[], object], times: int = 1) -> None:
    """Lets another writer act between the look at the table and the commit."""
    left = times

    def call(name: str, effect: Callable[[], object]) -> object:
        nonlocal left
        if name == "commit" and left:
            left -= 1
            by()
        return effect()

    stage.table.call = call


def test_an_epoch_is_committed_once(stage: Stage) -> None:
    first, second = stage.sealed(2)
    for stored in (first, first, second, first):
        stage.commit(stored)
    assert [row[0] for row in stage.table.live] == [1, 2]
    assert standing(stage.table, "job", "out").fence == transaction_version(1, 2)


def test_after_a_conflict_the_table_is_opened_and_checked_again(stage: Stage) -> None:
    [stored] = stage.sealed(1)
    overtaken(stage, lambda: stage.table.append("other", ((0, "other", 0),)))
    stage.commit(stored)
    assert [row[0] for row in stage.table.live] == [0, 1]


def test_a_commit_that_was_overtaken_by_itself_takes_effect_once(stage: Stage) -> None:
    [stored] = stage.sealed(1)
    calm = stage.table.call

    def itself() -> None:
        stage.table.call = calm
        stage.commit(stored)

    overtaken(stage, itself)
    stage.commit(stored)
    assert [row[0] for row in stage.table.live] == [1]
    assert len(stage.table.versions) == 2


def test_too_many_conflicts_end_with_a_named_error(stage: Stage) -> None:
    [stored] = stage.sealed(1)
    numbers = iter(range(CONFLICTS))
    overtaken(stage, lambda: stage.table.append(f"other-{next(numbers)}", ()), times=CONFLICTS)
    with pytest.raises(StorageError, match=f"{CONFLICTS} commits"):
        stage.commit(stored)
    assert standing(stage.table, "job", "out").fence == 0


def test_a_file_that_is_gone_is_not_committed(stage: Stage) -> None:
    [stored] = stage.sealed(1)
    del stage.table.rows["g1-e1"]
    with pytest.raises(MissingFileError, match="g1-e1"):
        stage.commit(stored)


def test_what_has_taken_effect_is_not_looked_for_again(stage: Stage) -> None:
    [stored] = stage.sealed(1)
    stage.commit(stored)
    stage.table.rewrite("optimized", ["g1-e1"])
    del stage.table.rows["g1-e1"]  # VACUUM
    stage.commit(stored)
    assert [row[0] for row in stage.table.live] == [1]


def test_a_table_that_its_owner_changes_takes_nothing_until_it_is_changed_back(stage: Stage) -> None:
    first, second = stage.sealed(2)
    stage.commit(first)
    stage.table.alter(altered=True)
    for write in (stage.sink.check, partial(stage.commit, second)):
        with pytest.raises(SinkError, match=r"Sink 'out' of job 'job' .*altered"):
            write()
    with pytest.raises(SinkError, match="altered"):
        stage.sink.rewind(stage.seal(1, None, 2), 3, keep_output=False)
    assert [row[0] for row in stage.table.live] == [1]
    stage.table.alter(altered=False)
    stage.commit(second)
    assert [row[0] for row in stage.table.live] == [1, 2]


def test_a_change_that_comes_between_look_and_commit_is_seen(stage: Stage) -> None:
    [stored] = stage.sealed(1)
    overtaken(stage, lambda: stage.table.alter(altered=True))
    with pytest.raises(SinkError, match="altered"):
        stage.commit(stored)
    assert not stage.table.spoilt


def test_a_restore_takes_away_what_a_living_driver_commits_meanwhile(stage: Stage) -> None:
    sealed = stage.sealed(2)
    stage.commit(sealed[0])
    calm = stage.table.call

    def late() -> None:
        stage.table.call = calm
        stage.commit(sealed[1])

    overtaken(stage, late)
    stage.sink.rewind(sealed[0], 2, keep_output=False)
    assert [row[0] for row in stage.table.live] == [1]
    assert standing(stage.table, "job", "out").fence == transaction_version(2, 0)


def test_a_restore_removes_what_is_abandoned_and_moves_the_fence_in_one_transaction(stage: Stage) -> None:
    sealed = stage.sealed(3)
    for stored in sealed:
        stage.commit(stored)
    before = len(stage.table.versions)
    stage.sink.check_rewind(sealed[0], 2)
    stage.sink.rewind(sealed[0], 2, keep_output=False)
    assert [row[0] for row in stage.table.live] == [1]
    assert len(stage.table.versions) == before + 1
    assert standing(stage.table, "job", "out").fence == transaction_version(2, 0)


@pytest.mark.parametrize("keep_output", [False, True])
def test_the_fence_moves_where_no_file_does(stage: Stage, keep_output: bool) -> None:
    sealed = stage.sealed(2)
    stage.commit(sealed[0])
    stage.sink.rewind(sealed[0], 2, keep_output=keep_output)
    stage.commit(sealed[1])  # by a driver that was declared dead
    assert [row[0] for row in stage.table.live] == [1]


def test_a_restore_that_is_done_again_changes_nothing(stage: Stage) -> None:
    sealed = stage.sealed(2)
    for stored in sealed:
        stage.commit(stored)
    stage.sink.rewind(sealed[0], 2, keep_output=False)
    stage.table.append("since", ())
    before = len(stage.table.versions)
    stage.sink.rewind(sealed[0], 2, keep_output=False)
    assert len(stage.table.versions) == before


def test_an_epoch_that_was_not_committed_need_not_be_removed(stage: Stage) -> None:
    sealed = stage.sealed(3)
    for stored in sealed[:2]:
        stage.commit(stored)
    stage.sink.check_rewind(sealed[0], 2)
    stage.sink.rewind(sealed[0], 2, keep_output=False)
    assert [row[0] for row in stage.table.live] == [1]


def test_a_file_that_another_writer_compacted_cannot_be_retracted(stage: Stage) -> None:
    sealed = stage.sealed(3)
    for stored in sealed:
        stage.commit(stored)
    stage.table.rewrite("compacted", ["g1-e2", "g1-e3"])
    for restore in (stage.sink.check_rewind, partial(stage.sink.rewind, keep_output=False)):
        with pytest.raises(SinkRewindError, match=r"2 files that sink 'out' wrote .*g1-e2"):
            restore(sealed[0], 2)
    stage.sink.rewind(sealed[0], 2, keep_output=True)
    assert [row[0] for row in stage.table.live] == [1, 2, 3]


def test_a_restore_into_an_abandoned_line_brings_its_output_back(stage: Stage) -> None:
    sealed = stage.sealed(3)
    for stored in sealed:
        stage.commit(stored)
    stage.sink.rewind(sealed[0], 2, keep_output=False)
    spans = Span(generation=1, first=1, last=1), Span(generation=2, first=2)
    other = stage.seal(2, sealed[0], 2, *spans)
    stage.commit(other)
    stage.sink.check_rewind(sealed[2], 3)
    stage.sink.rewind(sealed[2], 3, keep_output=False)
    assert stage.table.live == [(1, "row", 1), (2, "row", 1), (3, "row", 1)]


def test_a_restore_into_an_abandoned_line_needs_no_manifest_that_both_lines_share(stage: Stage) -> None:
    """Retention keeps the manifests that lead into the line of a savepoint, and none before them."""
    sealed = stage.sealed(3)
    for stored in sealed:
        stage.commit(stored)
    stage.sink.rewind(sealed[0], 2, keep_output=False)
    spans = Span(generation=1, first=1, last=1), Span(generation=2, first=2)
    stage.commit(stage.seal(2, sealed[0], 2, *spans))
    stage.storage.delete(manifest_path(1, 1))
    assert not stage.storage.exists(manifest_path(1, 1))
    stage.sink.check_rewind(sealed[2], 3)
    stage.sink.rewind(sealed[2], 3, keep_output=False)
    assert stage.table.live == [(1, "row", 1), (2, "row", 1), (3, "row", 1)]


def test_a_file_that_has_to_come_back_and_was_vacuumed_is_named(stage: Stage) -> None:
    sealed = stage.sealed(2)
    for stored in sealed:
        stage.commit(stored)
    stage.sink.rewind(sealed[0], 2, keep_output=False)
    spans = Span(generation=1, first=1, last=1), Span(generation=2, first=2)
    stage.seal(2, sealed[0], 2, *spans)
    del stage.table.rows["g1-e2"]
    for restore in (stage.sink.check_rewind, partial(stage.sink.rewind, keep_output=False)):
        with pytest.raises(SinkRewindError, match=r"VACUUM .*g1-e2"):
            restore(sealed[1], 3)


def test_a_table_that_is_not_there_has_no_fence_and_holds_nothing() -> None:
    table = SimulatedTable()
    assert standing(table, "job", "out").fence == 0
    with pytest.raises(NotFoundError):
        table.open()
