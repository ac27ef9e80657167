"""Epochs and Spark jobs of a long run: old entries are dropped without an effect on results. No JVM."""

from state_engine.spark.driver.progress import KEPT_EPOCHS, EpochHistory, EpochSummary, JobCounter


def summary(epoch: int) -> EpochSummary:
    return EpochSummary(epoch, "epoch", records=1, seconds=0.1)


def test_epochs_are_read_by_number() -> None:
    history = EpochHistory(kept=4)
    assert history.after(0) == []
    for epoch in range(2, 5):
        history.append(summary(epoch))
    assert [one.epoch for one in history.after(-1)] == [2, 3, 4]
    assert [one.epoch for one in history.after(3)] == [4]
    assert history.after(4) == []
    for epoch in range(5, 20):
        history.append(summary(epoch))
    assert [one.epoch for one in history.after(4)] == [16, 17, 18, 19]


def test_a_reader_sees_every_epoch_of_a_run_that_is_longer_than_what_is_kept() -> None:
    history, seen = EpochHistory(), 0
    for epoch in range(1, 3 * KEPT_EPOCHS):
        history.append(summary(epoch))
        if epoch % 1_000 == 0:
            epochs = [one.epoch for one in history.after(seen)]
            assert epochs == list(range(seen + 1, epoch + 1))
            seen = epoch


def test_jobs_that_were_forgotten_still_count() -> None:
    remembered: list[int] = []
    counter = JobCounter(lambda: remembered)
    assert counter.count() == 0
    for first in range(0, 5_000, 100):
        # Newest first, as Spark lists them; every other job is another query's.
        remembered = [*range(first + 98, first - 2, -2), *remembered][:500]
        assert counter.count() == (first + 100) // 2
    assert counter.count() == 2_500


def test_jobs_that_cannot_be_listed_in_passing_do_no_harm() -> None:
    listings: list[list[int]] = [[], [4, 3]]

    def job_ids() -> list[int]:
        listing = listings.pop(0)
        if not listing:
            raise ConnectionError("no JVM")
        return listing

    counter = JobCounter(job_ids)
    counter.look()
    assert counter.count() == 2
