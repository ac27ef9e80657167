"""Random operations and random time: states with a time to live, warm or restored, never differ from plain dicts."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.testing.state_folding_suite import Adding, Mean
from state_engine.testing.state_harness import StateHarness
from state_engine.testing.state_ttl_cases import with_ttl

TTL = 3
KEYS = [1, 2, None]
Update, Visibility = StateTtlConfig.UpdateType, StateTtlConfig.StateVisibility


class Model:
    """All states as plain lists and dicts of (value, last access), by the rules of `docs/formats/last-access.md`."""

    def __init__(self, *, event: bool, reads: bool, returns: bool) -> None:
        self.event, self.reads, self.returns = event, reads, returns
        self.cells: dict[Any, dict[Any, list[Any]]] = {}
        self.now = self.stamp = 0

    def alive(self, at: int) -> bool:
        return at + TTL > self.now

    def renewed(self, at: int) -> int:
        return max(at, self.stamp) if self.reads else at

    def call(self, name: str, method: str, key: Any, arguments: tuple[Any, ...]) -> Any:
        """Does what a state does; a value is the entry None of a map, a list has its numbers as entries."""
        entries = self.cells.setdefault((name, key), {})
        if method == "clear" or (method == "update" and arguments in ((None,), ([],))):
            entries.clear()
        elif name in ("sum", "mean"):
            return self._fold(name, method, entries, arguments)
        elif name == "list":
            return self._list(method, entries, arguments)
        elif method in ("put", "update"):
            user_key = arguments[0] if method == "put" else None
            entries.pop(user_key, None)
            entries[user_key] = [arguments[-1], self.stamp]
        elif method == "remove":
            entries.pop(arguments[0], None)
        elif method == "is_empty":
            return not [at for _, at in entries.values() if self.returns or self.alive(at)]
        elif method == "items":
            return {k: v for k in list(entries) for v in self._read(entries, k)}
        else:
            found = self._read(entries, arguments[0] if arguments else None)
            return bool(found) if method == "contains" else next(iter(found), None)
        return None

    def _read(self, entries: dict[Any, list[Any]], user_key: Any) -> list[Any]:
        if user_key not in entries:
            return []
        value, at = entries[user_key]
        if not self.alive(at):
            del entries[user_key]
            return [value] if self.returns else []
        if self.renewed(at) != at:
            entries.pop(user_key)
            entries[user_key] = [value, self.renewed(at)]
        return [value]

    def _list(self, method: str, entries: dict[Any, list[Any]], arguments: tuple[Any, ...]) -> Any:
        if method == "get":
            elements = list(entries.values())
            living = [[value, self.renewed(at)] for value, at in elements if self.alive(at)]
            moved = any(self.renewed(at) != at for _, at in elements if self.alive(at))
            if moved or not living:
                entries.clear()
                entries.update(enumerate(living))
            return [value for value, at in elements if self.returns or self.alive(at)]
        added = arguments[0] if method in ("add_all", "update") else [arguments[0]]
        if method == "update":
            entries.clear()
        for value in added:
            entries[max(entries, default=-1) + 1] = [value, self.stamp]
        return None

    def _fold(self, name: str, method: str, entries: dict[Any, list[Any]], arguments: tuple[Any, ...]) -> Any:
        if method == "get":
            found = next(iter(self._read(entries, None)), None)
            return found if name == "sum" or found is None else found[0] / found[1]
        held = entries.get(None)
        value = held[0] if held is not None and (self.returns or self.alive(held[1])) else None
        total, count = (value, 0) if name == "sum" else value or (0, 0)
        added = (total or 0) + arguments[0]
        entries[None] = [added if name == "sum" else (added, count + 1), self.stamp]
        return None

    def copy(self) -> dict[Any, dict[Any, list[Any]]]:
        return {cell: dict(entries) for cell, entries in self.cells.items()}

    def living(self) -> dict[Any, Any]:
        """Every entry that has not expired, with its last access."""
        found = {
            cell: {key: tuple(entry) for key, entry in entries.items() if self.alive(entry[1])}
            for cell, entries in self.cells.items()
        }
        return {
            cell: list(entries.values()) if cell[0] == "list" else entries for cell, entries in found.items() if entries
        }


small = st.integers(0, 3)
nullable = st.one_of(st.none(), small)
CALLS: dict[tuple[str, str], st.SearchStrategy[tuple[Any, ...]]] = {
    ("value", "update"): st.tuples(nullable),
    ("value", "value"): st.just(()),
    ("list", "add"): st.tuples(nullable),
    ("list", "add_all"): st.tuples(st.lists(small, max_size=2)),
    ("list", "update"): st.tuples(st.lists(small, max_size=2)),
    ("list", "get"): st.just(()),
    ("map", "put"): st.tuples(nullable, nullable),
    ("map", "remove"): st.tuples(nullable),
    ("map", "get"): st.tuples(nullable),
    ("map", "contains"): st.tuples(nullable),
    ("map", "items"): st.just(()),
    ("map", "is_empty"): st.just(()),
    ("sum", "add"): st.tuples(small),
    ("sum", "get"): st.just(()),
    ("mean", "add"): st.tuples(small),
    ("mean", "get"): st.just(()),
    **{(name, "clear"): st.just(()) for name in ("value", "list", "map", "sum", "mean")},
}
call = st.sampled_from(sorted(CALLS)).flatmap(lambda c: st.tuples(st.just(c), st.sampled_from(KEYS), CALLS[c]))
epoch = st.tuples(
    st.integers(0, 2),  # time goes on
    st.lists(st.tuples(call, st.integers(-2, 2)), max_size=8),  # and a record's time, beside the watermark
    st.sampled_from(["seal", "seal", "restore", "lose"]),
)


def describe(config: StateTtlConfig) -> dict[str, StateDescriptor]:
    return {
        "value": with_ttl(ValueStateDescriptor("value", Types.LONG()), config),
        "list": with_ttl(ListStateDescriptor("list", Types.LONG()), config),
        "map": with_ttl(MapStateDescriptor("map", Types.LONG(), Types.LONG()), config),
        "sum": with_ttl(ReducingStateDescriptor("sum", Adding(), Types.LONG()), config),
        "mean": with_ttl(AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([int, int])), config),
    }


def held(harness: StateHarness, names: list[str]) -> dict[Any, Any]:
    """All that the backend holds, with its stamps."""
    tables = harness.backend._tables  # type: ignore[attr-defined]
    return {(name, key): content for name in names for key, content in tables[name].base.items()}


def living(stored: dict[Any, Any], model: Model) -> dict[Any, Any]:
    """What of it has not expired, in the form of `Model.living`."""
    found: dict[Any, Any] = {}
    for cell, content in stored.items():
        if cell[0] == "map":
            found[cell] = {key: entry for key, entry in content.items() if model.alive(entry[1])}
        else:
            kept = [entry for entry in (content if cell[0] == "list" else [content]) if model.alive(entry[1])]
            found[cell] = kept if cell[0] == "list" else dict.fromkeys([None] * len(kept), content)
    return {cell: entries for cell, entries in found.items() if entries}


def run(config: StateTtlConfig, script: list[Any], *, exact: bool) -> None:
    """Compares call by call, and after each sealed epoch what is held; `exact`: also with a load, expired or not."""
    model = Model(
        event=config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime,
        reads=config.get_update_type() is Update.OnReadAndWrite,
        returns=config.get_state_visibility() is Visibility.ReturnExpiredIfNotCleanedUp,
    )
    descriptors = describe(config)
    harness = StateHarness(HeapKeyedStateBackend, "k bigint")
    for descriptor in descriptors.values():
        harness.state(descriptor)
    sealed, now = model.copy(), 1_000
    for passed, steps, end in script:
        now += passed
        for ((name, method), key, arguments), beside in steps:
            harness.time.processing_time = harness.time.watermark = model.now = now
            harness.time.timestamp = model.stamp = now + beside if model.event else now
            found = getattr(harness.state(descriptors[name], key), method)(*arguments)
            if method == "items" or (name, method) == ("list", "get"):
                found = (dict if name == "map" else list)(found)
            assert found == model.call(name, method, key, arguments), (name, method, key, arguments)
        model.now = harness.time.processing_time = harness.time.watermark = now
        if end == "lose":
            harness.backend.freeze(now)
            harness.backend.forget()
            model.cells = {cell: dict(entries) for cell, entries in sealed.items()}
            continue
        harness.seal()
        fresh = harness.reopened()
        for place in (harness, fresh):
            for descriptor in descriptors.values():
                place.state(descriptor)
            assert living(held(place, list(descriptors)), model) == model.living()
        if exact:
            assert held(fresh, list(descriptors)) == held(harness, list(descriptors))
            assert fresh.backend.statistics() == harness.backend.statistics()
        harness = fresh if end == "restore" else harness
        sealed = model.copy()


def settings_of(event: bool, reads: bool) -> StateTtlConfig.Builder:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()
    builder = builder.use_event_time() if event else builder
    return builder.update_ttl_on_read_and_write() if reads else builder


@pytest.mark.parametrize("event", [False, True])
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("returns", [False, True])
@given(script=st.lists(epoch, max_size=6))
@settings(max_examples=settings.default.max_examples // 4)
def test_without_clean_up_everything_is_alike(event: bool, reads: bool, returns: bool, script: list[Any]) -> None:
    builder = settings_of(event, reads)
    run((builder.return_expired_if_not_cleaned_up() if returns else builder).build(), script, exact=True)


@pytest.mark.parametrize("event", [False, True])
@pytest.mark.parametrize("reads", [False, True])
@given(script=st.lists(epoch, max_size=6), size=st.integers(1, 2), every=st.booleans(), loads=st.booleans())
@settings(max_examples=settings.default.max_examples // 4)
def test_clean_up_changes_nothing_that_is_read(
    event: bool, reads: bool, script: list[Any], size: int, every: bool, loads: bool
) -> None:
    builder = settings_of(event, reads).cleanup_incrementally(size, every)
    run((builder.cleanup_full_snapshot() if loads else builder).build(), script, exact=not loads)
