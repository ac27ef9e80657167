"""To which worker a task is sent."""

from hypothesis import given
from hypothesis import strategies as st

from state_engine.spark.worker.homes import Homes


def homes_of(workers: str) -> Homes[str]:
    homes: Homes[str] = Homes()
    for worker in workers:
        homes.add(worker)
    return homes


def has(homes: Homes[str], partition: int, worker: str) -> None:
    homes.begin(partition, worker)
    homes.end(worker)


def test_a_new_partition_goes_to_a_worker_that_has_none() -> None:
    homes = homes_of("ab")
    has(homes, 0, "a")
    assert homes.choose(1, 2) == "b"


def test_where_each_has_some_it_goes_to_a_new_one_up_to_two_for_each_connection() -> None:
    homes = homes_of("abc")
    for partition, worker in enumerate("abc"):
        has(homes, partition, worker)
    assert homes.choose(3, 2) is None
    homes.add("d")
    for partition, worker in ((3, "d"), (4, "d"), (5, "a")):
        has(homes, partition, worker)
    assert homes.choose(6, 2) == "b"


def test_of_two_stages_that_run_at_the_same_time_each_finds_its_own() -> None:
    homes = homes_of("ab")
    for _ in range(3):
        assert homes.choose(0, 2) == "a"
        homes.begin(0, "a")
        assert homes.choose(0, 2) == "b"
        homes.begin(0, "b")
        homes.end("a")
        homes.end("b")


def test_two_partitions_of_one_worker_part_where_they_run_at_the_same_time() -> None:
    homes = homes_of("ab")
    has(homes, 0, "a")
    has(homes, 1, "a")
    homes.begin(0, "a")
    assert homes.choose(1, 2) == "b"
    has(homes, 1, "b")
    homes.end("a")
    assert (homes.choose(0, 2), homes.choose(1, 2)) == ("a", "b")


def test_a_partition_of_a_worker_that_has_ended_is_new_again() -> None:
    homes = homes_of("ab")
    has(homes, 0, "a")
    has(homes, 1, "b")
    homes.remove("a")
    homes.add("c")
    assert homes.choose(0, 2) == "c"


def test_no_worker_is_idle_so_one_is_added() -> None:
    homes = homes_of("a")
    homes.begin(0, "a")
    assert homes.choose(1, 1) is None


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=60),
    st.booleans(),
)
def test_workers_are_never_more_than_may_be_and_none_has_two_tasks(connections, tasks, grows) -> None:
    homes: Homes[int] = Homes(grows=grows)
    busy: list[int] = []
    count = connections
    for worker in range(count):
        homes.add(worker)
    for partition, ended in tasks:
        if len(busy) == connections:
            homes.end(busy.pop(ended % connections))
        worker = homes.choose(partition, connections)
        if worker is None:
            worker, count = count, count + 1
            homes.add(worker)
        assert worker not in busy
        homes.begin(partition, worker)
        busy.append(worker)
    assert count <= (2 if grows else 1) * connections
