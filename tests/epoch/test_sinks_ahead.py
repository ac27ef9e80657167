"""A sink's table is ahead of the job's log: the root is gone, or is an older one, or another job has the name."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest
from dying import dying_at

from state_engine.checkpoint.compaction import compact
from state_engine.epoch import look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.sink_moves import birth_transaction_id, transaction_version
from state_engine.errors import FencedError, SinkAheadError
from state_engine.key_groups import KeyGroupRange
from state_engine.log.birth import birth_number
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import BIRTH
from state_engine.testing.simulated_cluster import JOB, Cluster, ClusterDriver, HostClock
from state_engine.testing.simulated_processes import Process
from state_engine.testing.simulated_table import SimulatedTable
from state_engine.testing.simulated_workers import GROUPS, TABLE, load, truth

BATCH = 3


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def started(cluster: Cluster, epochs: int = 0, *, adopt_sinks: bool = False) -> ClusterDriver:
    driver = ClusterDriver(cluster, 0, 1)
    driver.start(adopt_sinks=adopt_sinks)
    for _ in range(epochs):
        driver.step()
    return driver


def head_of(cluster: Cluster) -> StoredManifest:
    newest = look.newest(cluster.open_log())
    assert newest is not None
    return newest


def rows_of(cluster: Cluster) -> list[int]:
    return [row[0] for row in cluster.table.live]


def birth_in(table: SimulatedTable) -> int | None:
    return table.versions[-1].transactions.get(birth_transaction_id(JOB, TABLE))


def test_a_job_whose_root_was_removed_is_refused_and_writes_nothing(cluster: Cluster) -> None:
    started(cluster, 3)
    cluster.storage.objects.clear()
    before = list(cluster.table.versions)
    with pytest.raises(SinkAheadError, match=r"up to epoch 4 of generation 1.* has no epoch.*adopt_sinks"):
        started(cluster)
    assert not cluster.storage.objects
    assert cluster.table.versions == before


def test_a_root_that_was_put_back_is_still_detected_after_a_compaction(cluster: Cluster) -> None:
    """A compaction claims the job without looking at sinks, and takes the very epoch number that the table has."""
    driver = started(cluster)
    cluster.save()
    driver.step()
    cluster.put_back(table=False)
    rows = rows_of(cluster)
    compact(cluster.root, JOB, clock=HostClock(cluster, 0), ids=cluster)
    assert transaction_version(1, head_of(cluster).manifest.epoch) == max(
        cluster.table.versions[-1].transactions.values()
    )
    with pytest.raises(SinkAheadError):
        started(cluster)
    assert rows_of(cluster) == rows
    started(cluster, 1, adopt_sinks=True)
    assert rows_of(cluster) == sorted([*rows, *range(BATCH)])


def test_after_adoption_all_rows_stay_and_all_new_ones_come(cluster: Cluster) -> None:
    started(cluster, 3)
    cluster.storage.objects.clear()
    started(cluster, 2, adopt_sinks=True)
    assert rows_of(cluster) == sorted([*range(3 * BATCH), *range(2 * BATCH)])
    assert head_of(cluster).manifest.generation == 2
    started(cluster, 1)
    assert rows_of(cluster) == sorted([*range(3 * BATCH), *range(3 * BATCH)])
    assert head_of(cluster).manifest.generation == 2


def test_adoption_changes_nothing_where_no_sink_is_ahead(cluster: Cluster) -> None:
    started(cluster, 2, adopt_sinks=True)
    started(cluster, 2, adopt_sinks=True)
    assert head_of(cluster).manifest.generation == 1
    assert rows_of(cluster) == list(range(4 * BATCH))


def test_an_older_root_is_refused_and_goes_on_after_the_epoch_of_the_table_once_it_is_adopted(cluster: Cluster) -> None:
    started(cluster, 1)
    cluster.save()
    started(cluster, 2)
    cluster.put_back(table=False)
    with pytest.raises(SinkAheadError, match=r"up to epoch 5 of generation 1.* ends at epoch 2 of generation 1"):
        started(cluster)
    started(cluster, 3, adopt_sinks=True)
    head = head_of(cluster)
    assert (head.manifest.generation, head.manifest.epoch) == (2, 6)
    assert rows_of(cluster) == sorted([*range(3 * BATCH), *range(BATCH, 4 * BATCH)])
    state = load(cluster.root, JOB, cluster.open_log(), head, KeyGroupRange(0, GROUPS - 1))
    assert state == truth(4 * BATCH).state


def test_a_root_of_before_the_table_was_owed_something_is_none_that_lost_epochs(cluster: Cluster) -> None:
    started(cluster, 2)
    cluster.save()
    cluster.put_back(table=False)
    started(cluster, 1)
    assert rows_of(cluster) == list(range(3 * BATCH))


def test_two_roots_that_are_started_at_once_do_not_share_a_table(cluster: Cluster) -> None:
    other = Cluster()
    other._ids = count(1_000_000)
    other.table = cluster.table
    one, two = started(cluster), started(other)
    one.step()
    with pytest.raises(SinkAheadError, match="another job"):
        two.step()
    with pytest.raises(SinkAheadError):
        started(other)
    one.step()
    assert rows_of(cluster) == list(range(2 * BATCH))
    other.close()


@pytest.fixture
def stranger(cluster: Cluster) -> Iterator[Cluster]:
    """Another root with three epochs, which had a sink table of its own and now uses that of `cluster`."""
    started(cluster, 1)
    other = Cluster()
    other._ids = count(1_000_000)
    started(other, 3)
    cluster.table.rows.update(other.table.rows)
    other.table = cluster.table
    yield other
    other.close()


def test_another_log_is_reported_even_if_it_is_further_than_the_table(stranger: Cluster) -> None:
    with pytest.raises(SinkAheadError, match="is not the one that wrote it"):
        started(stranger)


POINTS = [CrashPoint.S2_CLOSED, CrashPoint.S3_REWOUND, CrashPoint.S2_BEFORE_CLAIM]


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_the_next_start_finishes_an_adoption_that_died(cluster: Cluster, point: CrashPoint) -> None:
    started(cluster, 1)
    cluster.save()
    started(cluster, 2)
    cluster.put_back(table=False)
    with dying_at(cluster, point):
        started(cluster, adopt_sinks=True)
    started(cluster, 1)
    assert head_of(cluster).manifest.generation == 2
    assert rows_of(cluster) == sorted([*range(3 * BATCH), *range(BATCH, 2 * BATCH)])


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_the_next_start_finishes_the_adoption_of_another_logs_table(stranger: Cluster, point: CrashPoint) -> None:
    with dying_at(stranger, point):
        started(stranger, adopt_sinks=True)
    started(stranger, 1)
    assert head_of(stranger).manifest.generation == 2
    assert rows_of(stranger) == [*range(BATCH), *range(2 * BATCH, 4 * BATCH)], "its newest epoch had been refused"
    started(stranger, 1)
    assert head_of(stranger).manifest.generation == 2


@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("calls", range(8))
def test_a_driver_that_lives_is_never_ahead_of_its_log(cluster: Cluster, calls: int) -> None:
    old, new = started(cluster, 2), ClusterDriver(cluster, 0, 1)
    start = Process("start", new.start)
    cluster.processes.run(start, calls)
    with suppress(FencedError):
        old.step()
    cluster.processes.run(start)
    assert not isinstance(start.error, SinkAheadError)


def test_log_and_table_of_a_release_without_birth_ids_go_on_and_pay_what_is_owed(cluster: Cluster) -> None:
    driver = started(cluster, 2)
    process = Process("dies before its commit", driver.step)
    cluster.processes.run(process, 0, "table")
    process.killed = True
    cluster.processes.kill(process)
    del cluster.storage.objects[BIRTH]
    newest = cluster.table.versions[-1]
    without = {name: at for name, at in newest.transactions.items() if "birth" not in name}
    cluster.table.versions[-1] = newest._replace(transactions=without)
    assert birth_in(cluster.table) is None

    started(cluster, 1)

    assert rows_of(cluster) == list(range(4 * BATCH))
    birth = cluster.open_log().birth()
    assert birth is not None
    assert birth_in(cluster.table) == birth_number(birth)


def test_a_damaged_birth_id_is_named(cluster: Cluster) -> None:
    started(cluster, 1)
    data, changed = cluster.storage.objects[BIRTH]
    cluster.storage.objects[BIRTH] = data.replace(b'"birth_id":"0', b'"birth_id":"1'), changed
    with pytest.raises(Exception, match=BIRTH):
        started(cluster)
