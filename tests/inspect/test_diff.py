"""Differences between two epochs, for states of any size."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.errors import NothingToRestoreError, UnknownOperatorError
from state_engine.inspect import diff_states, find_state, history_at, read_state, scan_state
from state_engine.inspect.read import segments_of
from state_engine.inspect.scan import group_rows, ranges_of
from state_engine.key_groups import KeyGroupRange
from state_engine.log.records import StateSchema
from state_engine.testing.changes import append, delete, put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job

COUNT, LEGS, SEEN = ("aircraft", "count"), ("aircraft", "legs"), ("carrier", "seen")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def by_state(diffs: Any) -> dict[tuple[str, str], Any]:
    return {(one.uid, one.state): one for one in diffs}


def test_entries_that_came_went_and_changed(root: str) -> None:
    job = sample_job(root)
    before = job.epoch({COUNT: [put("N1", 1), put("N2", 2), put("N3", 3)], LEGS: [append("N1", None)]})
    after = job.epoch({COUNT: [put("N2", 5), delete("N3"), put(None, 0)], LEGS: [append("N1", None)]})
    diffs = by_state(diff_states(root, "flights", before, after))
    count = diffs[COUNT]
    assert (count.added, count.removed, count.changed, count.unchanged) == (1, 1, 1, 1)
    assert [(one.kind, one.entry["tailnum"], one.before, one.after) for one in count.examples] == [
        ("added", None, None, 0),
        ("removed", "N3", 3, None),
        ("changed", "N2", 2, 5),
    ]
    assert [(one.before, one.after) for one in diffs[LEGS].examples] == [([None], [None, None])]
    assert diffs[SEEN].is_equal
    assert all(one.is_equal for one in diff_states(root, "flights", after, after))


def test_each_entry_of_a_map_counts(root: str) -> None:
    job = sample_job(root)
    key = ("UA", 2013)
    before = job.epoch({SEEN: [put(key, 0.5, user_key="a"), put(key, None, user_key=None)]})
    after = job.epoch({SEEN: [delete(key, user_key=None), put(key, float("nan"), user_key="b")]})
    seen = by_state(diff_states(root, "flights", before, after))[SEEN]
    assert (seen.added, seen.removed, seen.changed, seen.unchanged) == (1, 1, 0, 1)
    assert seen.examples[0].entry == {"carrier": "UA", "year": 2013, "namespace": None, "user_key": "b"}
    unchanged = by_state(diff_states(root, "flights", after, job.epoch()))[SEEN]
    assert unchanged.is_equal  # NaN too


def test_an_entry_of_nan_is_the_same_entry(root: str) -> None:
    rows = "struct<x:double,y:string>"
    schemas = [state("op", name, "k string", "int", shape="map", user_key=key) for name, key in
               (("doubles", "double"), ("rows", rows))]  # fmt: skip
    job = JobBuilder(root, "numbers", schemas)
    for name in ("doubles", "rows"):  # the model of the builder cannot hold such user keys
        job.model["op", name] = type("Ignored", (dict,), {"__setitem__": lambda *_: None})()
    epochs = [
        job.epoch(
            {
                ("op", "doubles"): [put("a", value, user_key=float("nan")), put("a", 1, user_key=zero)],
                ("op", "rows"): [put("a", value, user_key={"x": float("nan"), "y": "z"})],
            }
        )
        for value, zero in ((1, 0.0), (2, -0.0))
    ]
    doubles, in_rows = diff_states(root, "numbers", *epochs)
    for diffs, unchanged in ((doubles, 1), (in_rows, 0)):
        assert (diffs.added, diffs.removed, diffs.changed, diffs.unchanged) == (0, 0, 1, unchanged)


def test_a_window_is_a_name_like_any_other(root: str) -> None:
    schema = StateSchema(
        schema_id="w.1", uid="sum", kind="keyed", name="window", shape="value", value="bigint",
        key=state("a", "b", "user string", "int").key, namespace="struct<start:bigint,end:bigint>",
    )  # fmt: skip
    job = JobBuilder(root, "windows", [schema])
    window = {"start": 0, "end": 9}
    before = job.epoch()
    # The model of the builder cannot hold such a namespace; only the log counts here.
    job.model["sum", "window"] = type("Ignored", (dict,), {"__setitem__": lambda *_: None})()
    after = job.epoch({("sum", "window"): [put("ann", 1, namespace=window)]})
    [diffs] = diff_states(root, "windows", before, after)
    assert (diffs.added, diffs.examples[0].entry["namespace"]) == (1, window)


def test_elements_that_a_rescale_moved_are_no_difference(root: str) -> None:
    from state_engine.inspect.diff import _compare, _entries

    schema = StateSchema(schema_id="o.1", uid="op", kind="operator", name="list", shape="list", value="bigint")
    one = pa.table({"key_group": [0, 1], "namespace": ["2", "2"], "value": [1, 2]})
    other = pa.table({"key_group": [0, 0], "namespace": ["1", "1"], "value": [1, 2]})
    assert [diffs.kind for diffs in _compare(_entries(schema, one), _entries(schema, other))] == ["unchanged"]


@pytest.mark.parametrize("rows_at_once", [1, 20, 1_000_000])
def test_random_histories_differ_as_their_models_do(root: str, rows_at_once: int) -> None:
    rng = random.Random(rows_at_once)
    job = sample_job(root)
    publisher = CheckpointPublisher(job.storage, job.job)
    sealed = []
    for number in range(6):
        sealed.append(job.epoch(random_changes(rng, 25), checkpoint_id=number if number in (2, 4) else None))
        publisher.begin(sealed[-1])
        job.adopt(publisher.completed())
    for before, after in [(sealed[0], sealed[5]), (sealed[2], sealed[4]), (sealed[5], sealed[1])]:
        for diffs in diff_states(root, "flights", before, after, examples=1_000, rows_at_once=rows_at_once):
            left = job.rows(diffs.uid, diffs.state, before)
            right = job.rows(diffs.uid, diffs.state, after)
            both = left.keys() & right.keys()
            assert diffs.added == len(right.keys() - left.keys())
            assert diffs.removed == len(left.keys() - right.keys())
            assert diffs.changed == sum(left[entry] != right[entry] for entry in both)
            assert diffs.unchanged == len(both) - diffs.changed
            assert len(diffs.examples) == diffs.added + diffs.removed + diffs.changed


def test_examples_are_few_and_counts_are_whole(root: str) -> None:
    job = sample_job(root)
    before = job.epoch()
    after = job.epoch({COUNT: [put(f"N{n}", n) for n in range(50)]})
    told = []
    count = by_state(
        diff_states(root, "flights", before, after, examples=3, on_progress=lambda *one: told.append(one))
    )[COUNT]
    assert (count.added, len(count.examples)) == (50, 3)
    assert told[-1] == ("carrier/seen", 1.0)


def test_what_is_not_there_cannot_be_compared(root: str) -> None:
    sample_job(root).epoch()
    with pytest.raises(NothingToRestoreError, match="no savepoint 'sp-1'"):
        list(diff_states(root, "flights", "sp-1", "latest"))


@pytest.mark.parametrize("rows_at_once", [1, 7, 1_000])
def test_a_scan_gives_every_row_once_and_a_key_group_in_one_piece(root: str, rows_at_once: int) -> None:
    rng = random.Random(5)
    job = sample_job(root)
    publisher = CheckpointPublisher(job.storage, job.job)
    job.epoch(random_changes(rng, 60))
    publisher.begin(job.epoch(random_changes(rng, 60), checkpoint_id=1))
    job.adopt(publisher.completed())
    job.epoch(random_changes(rng, 60))
    history = history_at(root, "flights")
    for schema in SCHEMAS:
        pieces = list(scan_state(root, "flights", history, schema, rows_at_once=rows_at_once))
        assert pa.concat_tables(pieces).equals(read_state(root, "flights", schema.uid, schema.name))
        groups = [set(piece["key_group"].to_pylist()) for piece in pieces]
        assert sum(map(len, groups)) == len(set().union(*groups))
        part = list(scan_state(root, "flights", history, schema, within=KeyGroupRange(3, 5), rows_at_once=rows_at_once))
        wanted = read_state(root, "flights", schema.uid, schema.name, first=3, last=5)
        assert sum(piece.num_rows for piece in part) == wanted.num_rows


def test_rows_per_key_group_add_up_to_the_log(root: str) -> None:
    job = sample_job(root)
    publisher = CheckpointPublisher(job.storage, job.job)
    publisher.begin(job.epoch({COUNT: [put(f"N{n}", n) for n in range(40)]}, checkpoint_id=1))
    job.adopt(publisher.completed())
    job.epoch({COUNT: [put("N1", 0)]})
    rows = group_rows(segments_of(root, "flights", history_at(root, "flights")), SCHEMAS[0], 13)
    assert rows.sum() == pytest.approx(41)


@pytest.mark.parametrize(
    ("rows", "at_once", "ranges"),
    [
        ([], 5, []),
        ([0, 0, 0], 5, [(0, 2)]),
        ([3, 3, 3], 5, [(0, 0), (1, 1), (2, 2)]),
        ([9, 1, 1, 9], 5, [(0, 0), (1, 2), (3, 3)]),
        ([2, 3, 1], 5, [(0, 1), (2, 2)]),
    ],
)
def test_key_groups_are_cut_by_rows(rows: list[int], at_once: int, ranges: list[tuple[int, int]]) -> None:
    assert list(ranges_of(np.array(rows, float), at_once)) == ranges


@pytest.mark.parametrize("name", ["aircraft/count", "aircraft.count", "count"])
def test_a_state_is_found_by_what_people_call_it(root: str, name: str) -> None:
    sample_job(root).epoch()
    assert find_state(history_at(root, "flights"), "flights", name).name == "count"


def test_a_name_that_two_states_have_is_refused(root: str) -> None:
    JobBuilder(root, "twins", [state("a", "n", "k string", "int"), state("b", "n", "k string", "int")]).epoch()
    with pytest.raises(UnknownOperatorError, match=r"several states .* there are a/n, b/n"):
        find_state(history_at(root, "twins"), "twins", "n")
    with pytest.raises(UnknownOperatorError, match=r"no state 'm' .* there are a/n, b/n"):
        find_state(history_at(root, "twins"), "twins", "m")
