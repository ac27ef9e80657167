"""How far sources are behind, from what Spark tells. No JVM."""

from state_engine.spark.driver.source_lag import SourceLag, source_lags

KAFKA = {"endOffset": '{"in":{"0":5,"1":7}}', "latestOffset": '{"in":{"0":9,"1":7,"2":3}}'}


def test_partitions_are_added_and_new_ones_count_in_full() -> None:
    assert source_lags(["clicks"], [True], [KAFKA]) == (SourceLag("clicks", 4 + 3),)


def test_offsets_may_be_objects_and_a_position_ahead_is_no_lag() -> None:
    told = {"endOffset": {"in": {"0": 9}}, "latestOffset": {"in": {"0": 5}}}
    assert source_lags(["clicks"], [True], [told]) == (SourceLag("clicks", 0),)


def test_before_the_first_batch_everything_is_ahead_of_the_job() -> None:
    told = {"endOffset": None, "latestOffset": '{"in":{"0":5}}'}
    assert source_lags(["clicks"], [True], [told]) == (SourceLag("clicks", 5),)


def test_sources_without_such_offsets_are_unknown() -> None:
    others = [{"endOffset": '{"logOffset":3}', "latestOffset": None}, {"endOffset": "7", "latestOffset": "9"}, {}]
    delta = {"endOffset": '{"reservoirVersion":3,"index":1}', "latestOffset": '{"reservoirVersion":4}'}
    assert [lag.records for lag in source_lags(["a", "b", "c", "d"], [True] * 4, [*others, delta])] == [None] * 4
    assert source_lags(["clicks"], [True], []) == (SourceLag("clicks", None),)


def test_without_a_limit_nothing_is_known() -> None:
    assert source_lags(["clicks"], [False], [KAFKA]) == (SourceLag("clicks", None),)
