"""Changelogs of changelogs: the first records of one key, or its aggregates, are aggregated by another key."""

from collections import Counter

import pytest
from changelogs import aggregating, checked, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from recounts import rank
from restoring import renewed

from state_engine.api import Aggregate
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.runtime.declared.top_n import TopN
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

SCORES = parse_columns_ddl("game string, player string, points bigint")
RANKED = parse_columns_ddl("game string, player string, points bigint, rank bigint, op string")
PLACES = {
    "places": Aggregate.count(), "known": Aggregate.count("points"), "points": Aggregate.sum("points"),
    "mean_rank": Aggregate.avg("rank"), "best": Aggregate.min("rank"), "most": Aggregate.max("points"),
}  # fmt: skip
COUNTED = parse_columns_ddl(
    "player string, places bigint, known bigint, points bigint, mean_rank double, best bigint, most bigint, op string"
)
SCORE = st.tuples(
    st.sampled_from(["go", "chess", None]), st.sampled_from(["ann", "bob", None]), st.none() | st.integers(0, 5)
)
EPOCHS = st.lists(st.lists(SCORE, max_size=8), min_size=1, max_size=5)


class Chain:
    """Several harnesses in sequence, used as one: the output of one in an epoch is the input of the next one."""

    def __init__(self, *harnesses):
        self.harnesses = harnesses

    def open(self):
        for one in self.harnesses:
            one.open()

    def close(self):
        for one in self.harnesses:
            one.close()

    def process_elements(self, records):
        *front, last = self.harnesses
        for one in front:
            records = rows_of(one, *records)
        last.process_elements(records)

    def extract_output_values(self):
        return self.harnesses[-1].extract_output_values()

    def clear_output(self):
        self.harnesses[-1].clear_output()

    def snapshot(self):
        return [one.snapshot() for one in self.harnesses]

    def initialize_state(self, snapshots):
        for one, snapshot in zip(self.harnesses, snapshots, strict=True):
            one.initialize_state(snapshot)


def top(n, **options):
    function = TopN(SCORES, n, "points")
    assert function.output == RANKED
    return Harness(function, "game", SCORES, function.output, **options)


def places(**options):
    return aggregating("player", PLACES, RANKED, retract=True, **options)


def first(scores, n):
    """Returns the records that are among the first of their game, as (player, points, rank)."""
    records = []
    for game in {score[0] for score in scores}:
        best = sorted((score for score in scores if score[0] == game), key=lambda score: rank(score[2]), reverse=True)
        records += [(player, points, place) for place, (_, player, points) in enumerate(best[:n], 1)]
    return records


def placed(records):
    """Returns the results of `PLACES` for such records."""
    points = [one for _, one, _ in records if one is not None]
    places = [place for *_, place in records]
    mean, most = sum(places) / len(places), max(points, default=None)
    return len(records), len(points), sum(points) if points else None, mean, min(places), most


def so_far(epochs, there):
    """Yields each epoch's records, and the result of `there` for all records until its end."""
    came = []
    for records in epochs:
        came = came + records
        yield records, there(came)


over_each = pytest.mark.parametrize("backend", ["heap", "rocksdb"])
in_each_life = pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])


def examples(backend):
    return settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))


@pytest.mark.hypothesis
@over_each
@in_each_life
def test_what_is_among_the_first_is_counted_by_another_key(backend, restored):
    @examples(backend)
    @given(EPOCHS, st.integers(1, 3))
    def check(epochs, n):
        new = lambda: Chain(top(n, state_backend=backend), places(state_backend=backend))  # noqa: E731
        checked(so_far(epochs, lambda scores: first(scores, n)), new, restored, placed)

    check()


@pytest.mark.hypothesis
@over_each
@in_each_life
def test_how_many_have_how_many_places(backend, restored):
    """Three operators: keys of the second one appear and disappear, and so do rows of the third."""
    players = {"players": Aggregate.count(), "points": Aggregate.sum("points")}

    def there(scores):
        firsts = first(scores, 2)
        of_each = Counter(player for player, _, _ in firsts)
        return [(count, placed([one for one in firsts if one[0] == player])[2]) for player, count in of_each.items()]

    def wanted(records):
        points = [one for _, one in records if one is not None]
        return len(records), sum(points) if points else None

    def new():
        by_count = aggregating("places", players, COUNTED, retract=True, state_backend=backend)
        return Chain(top(2, state_backend=backend), places(state_backend=backend), by_count)

    @examples(backend)
    @given(EPOCHS)
    def check(epochs):
        checked(so_far(epochs, there), new, restored, wanted)

    check()


@pytest.mark.hypothesis
@over_each
@in_each_life
def test_aggregates_that_only_grow_are_retracted_by_another_key(backend, restored):
    """Games by the most points in each: aggregates that cannot retract are the input of some that can."""
    of_game = {"n": Aggregate.count(), "most": Aggregate.max("points"), "last": Aggregate.last("player")}
    totals = {"games": Aggregate.count(), "scores": Aggregate.sum("n"), "mean": Aggregate.avg("n")}

    def there(scores):
        of_each = Counter(game for game, _, _ in scores)
        return [(max((p for g, _, p in scores if g == game), key=rank), n) for game, n in of_each.items()]

    def wanted(records):
        numbers = [n for _, n in records]
        return len(numbers), sum(numbers), sum(numbers) / len(numbers)

    def new():
        games = aggregating("game", of_game, SCORES, retract=False, state_backend=backend)
        columns = parse_columns_ddl("game string, n bigint, most bigint, last string, op string")
        return Chain(games, aggregating("most", totals, columns, retract=True, state_backend=backend))

    @examples(backend)
    @given(EPOCHS)
    def check(epochs):
        checked(so_far(epochs, there), new, restored, wanted)

    check()


def test_who_is_pushed_out_is_counted_no_more():
    with top(2) as leaders, aggregating("player", {"places": Aggregate.count()}, RANKED, retract=True) as count:
        changes = rows_of(leaders, ("go", "ann", 5), ("go", "bob", 3), ("chess", "ann", 1))
        assert rows_of(count, *changes) == [("ann", 2, "+I"), ("bob", 1, "+I")]
        changes = rows_of(leaders, ("go", "cid", 4))
        assert changes == [("go", "bob", 3, 2, "-U"), ("go", "cid", 4, 2, "+U")]
        assert rows_of(count, *changes) == [("bob", 1, "-D"), ("cid", 1, "+I")]
        assert count.snapshot().states() == {"count": {"ann": 2, "cid": 1}}, "nothing for a player without places"
        changes = rows_of(leaders, ("go", "cid", 9))
        assert [row[1] + row[-1] for row in changes] == ["ann-U", "cid+U", "cid-U", "ann+U"]
        assert rows_of(count, *changes) == [], "both have as many places as before"


def test_a_smaller_n_retracts_places():
    count = aggregating("player", {"places": Aggregate.count()}, RANKED, retract=True)
    leaders = top(3)
    changes = rows_of(leaders, ("go", "ann", 5), ("go", "bob", 3), ("go", "cid", 1), ("chess", "bob", 1))
    assert rows_of(count, *changes) == [("ann", 1, "+I"), ("bob", 2, "+I"), ("cid", 1, "+I")]
    leaders = renewed(leaders, lambda: top(1))
    with leaders, count:
        changes = rows_of(leaders, ("go", "cid", 0))
        assert [(row[1], row[-1]) for row in changes] == [("bob", "-D"), ("cid", "-D")]
        assert rows_of(count, *changes) == [("bob", 2, "-U"), ("bob", 1, "+U"), ("cid", 1, "-D")]
