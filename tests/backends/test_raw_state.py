"""Raw state: the next instance gets a snapshot's bytes, at any parallelism; unchanged bytes cost nothing."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import ListStateDescriptor, Types
from state_engine.backends.operator_lists import even_pieces
from state_engine.backends.operator_state import OperatorStateBackend
from state_engine.backends.raw_state import RawWritten
from state_engine.backends.schemas import RAW_KEYED, RAW_OPERATOR
from state_engine.key_groups import range_of
from state_engine.log.fold import coalesce, fold
from state_engine.log.ops import KEY_GROUP, LAST_ACCESS, SEQ, VALUE, Op, with_position
from state_engine.log.records import StateSchema
from state_engine.storage.state_reader import empty_rows

M = 13


class Log:
    """Sealed rows of one operator, and its subtasks, which read them."""

    def __init__(self) -> None:
        self.rows: list[tuple[StateSchema, pa.Table]] = []
        self.schemas: dict[str, StateSchema] = {}
        self.epoch = 0

    def attach(self, backend: OperatorStateBackend, subtask: int, parallelism: int) -> None:
        key_groups = range_of(subtask, parallelism, M)

        def load(schema: StateSchema) -> Iterable[pa.Table]:
            for of, rows in self.rows:
                groups = rows.column(KEY_GROUP).to_numpy()
                if of == schema:
                    keep = (groups >= key_groups.first) & (groups <= key_groups.last)
                    yield rows.filter(keep) if schema.kind == "keyed" else rows

        backend.attach(self.schemas.values(), load)

    def backends(self, parallelism: int) -> list[OperatorStateBackend]:
        made = [OperatorStateBackend("op", subtask, parallelism) for subtask in range(parallelism)]
        for subtask, backend in enumerate(made):
            self.attach(backend, subtask, parallelism)
        return made

    def seal(self, backends: Sequence[OperatorStateBackend]) -> list[tuple[StateSchema, pa.Table]]:
        """Seals an epoch of all subtasks, which keep running; returns its rows."""
        self.epoch += 1
        changes = [change for backend in backends for change in backend.freeze(1000 * self.epoch, 0)]
        self.rows += [(schema, with_position(rows, self.epoch)) for schema, rows in changes]
        for subtask, backend in enumerate(backends):
            self.schemas |= {schema.name: schema for schema in backend.schemas}
            backend.settle()
            self.attach(backend, subtask, len(backends))
        return changes

    def write(self, backends: Sequence[OperatorStateBackend], keyed: dict[int, bytes]) -> int:
        """Seals an epoch in which snapshots write the bytes of all key groups; returns the number of rows."""
        for subtask, backend in enumerate(backends):
            key_groups = range_of(subtask, len(backends), M)
            backend.raw.write(RawWritten({g: data for g, data in keyed.items() if g in key_groups}, []))
        return sum(rows.num_rows for _, rows in self.seal(backends))

    def write_partitions(self, backends: Sequence[OperatorStateBackend], parts: Sequence[Sequence[bytes]]) -> int:
        for backend, partitions in zip(backends, parts, strict=True):
            backend.raw.write(RawWritten({}, partitions))
        return sum(rows.num_rows for _, rows in self.seal(backends))

    def folded(self, name: str) -> pa.Table:
        schema = self.schemas[name]
        return fold(schema, [empty_rows(schema), *(rows for of, rows in self.rows if of == schema)])

    def publish(self) -> None:
        """Replaces all rows by their coalesced form."""
        self.rows = [
            (schema, coalesce(schema, [empty_rows(schema), *(rows for of, rows in self.rows if of == schema)]))
            for schema in self.schemas.values()
        ]

    def reset(self, key_group: int) -> None:
        """Writes the reset with which a restore of a chosen key group begins."""
        self.epoch += 1
        schema = self.schemas[RAW_KEYED]
        row = dict.fromkeys(empty_rows(schema).column_names) | {"key_group": key_group, "op": Op.RESET_GROUP, "seq": 0}
        row["position"] = self.epoch
        self.rows.append((schema, pa.Table.from_pylist([row], empty_rows(schema).schema)))


def keyed_of(backends: Sequence[OperatorStateBackend]) -> dict[int, bytes]:
    return {group: data for backend in backends for group, data in backend.raw.keyed().items()}


def partitions_of(backends: Sequence[OperatorStateBackend]) -> list[list[bytes]]:
    return [backend.raw.partitions() for backend in backends]


snapshots = st.dictionaries(st.integers(0, M - 1), st.binary(max_size=3))


@settings(max_examples=settings.default.max_examples // 4)
@given(
    epochs=st.lists(st.tuples(snapshots, st.integers(1, 5), st.booleans(), st.booleans()), max_size=8),
    asks=st.booleans(),
)
def test_key_groups_are_what_the_last_snapshot_gave(
    epochs: list[tuple[dict[int, bytes], int, bool, bool]], asks: bool
) -> None:
    log, sealed, backends = Log(), dict[int, bytes](), Log().backends(1)
    for keyed, parallelism, goes_on, publishes in epochs:
        if not goes_on or len(backends) != parallelism or log.epoch == 0:
            backends = log.backends(parallelism)
            if asks:
                assert list(keyed_of(backends).items()) == sorted(sealed.items())
        differing = {g for g in {*sealed, *keyed} if sealed.get(g) != keyed.get(g)}
        assert log.write(backends, keyed) == len(differing)
        sealed = keyed
        assert sum(s.rows for b in backends for s in b.statistics() if s.name == RAW_KEYED) == len(sealed)
        if log.schemas:
            rows = log.folded(RAW_KEYED)
            assert dict(zip(rows[KEY_GROUP].to_pylist(), rows[VALUE].to_pylist(), strict=True)) == sealed
            if publishes:
                log.publish()


def test_rows_of_key_groups() -> None:
    log = Log()
    backends = log.backends(2)
    log.write(backends, {8: b"eight", 1: b"", 3: b"three"})
    log.write(backends, {8: b"eight", 3: b"3"})
    rows = log.rows[-1][1].to_pylist()
    assert [(r["key_group"], r["value"], Op(r["op"]), r[SEQ], r[LAST_ACCESS]) for r in rows] == [
        (1, None, Op.DELETE, 0, None),
        (3, b"3", Op.PUT, 1, 2000),
    ]
    assert log.rows[0][1].column_names == ["key_group", "namespace", "value", "op", "position", "seq", "last_access"]


def test_a_key_group_that_is_empty_is_there() -> None:
    log = Log()
    log.write(log.backends(1), {1: b""})
    assert keyed_of(log.backends(3)) == {1: b""}


def test_a_key_group_that_was_reset_is_gone() -> None:
    log = Log()
    log.write(log.backends(1), {1: b"one", 2: b"two"})
    log.reset(1)
    assert keyed_of(log.backends(2)) == {2: b"two"}


def test_what_was_frozen_and_not_sealed_is_no_state() -> None:
    log = Log()
    backends = log.backends(1)
    log.write(backends, {1: b"one"})
    backends[0].raw.write(RawWritten({1: b"lost"}, [b"lost"]))
    assert backends[0].freeze(0, 0)
    [again] = log.backends(1)
    assert (again.raw.keyed(), again.raw.partitions()) == ({1: b"one"}, [])
    assert log.write([again], {1: b"lost"}) == 1


@settings(max_examples=settings.default.max_examples // 4)
@given(
    contents=st.lists(st.lists(st.binary(max_size=3), max_size=5), min_size=1, max_size=4),
    parallelisms=st.lists(st.integers(1, 5), max_size=3),
)
def test_partitions_are_cut_anew_as_lists_are(contents: list[list[bytes]], parallelisms: list[int]) -> None:
    log, whole = Log(), [part for parts in contents for part in parts]
    log.write_partitions(log.backends(len(contents)), contents)
    before = len(contents)
    for parallelism in parallelisms:
        backends = log.backends(parallelism)
        partitions = partitions_of(backends)
        if parallelism != before:
            assert partitions == [whole[piece] for piece in even_pieces(len(whole), parallelism)]
        log.write_partitions(backends, partitions)
        assert log.write_partitions(backends, partitions) == 0, "the next epoch writes nothing"
        before = parallelism
    assert [part for parts in partitions_of(log.backends(before)) for part in parts] == whole


def test_partitions_that_no_snapshot_gives_are_gone_also_at_another_parallelism() -> None:
    for parallelism in (2, 3):
        log = Log()
        log.write_partitions(log.backends(2), [[b"a"], [b"b", b"c"]])
        backends = log.backends(parallelism)
        assert log.seal(backends)
        assert partitions_of(log.backends(2)) == [[], []]
        assert log.seal(log.backends(parallelism)) == []
        assert log.folded(RAW_OPERATOR).num_rows == 0


def test_raw_and_managed_state_lie_side_by_side() -> None:
    log, numbers = Log(), ListStateDescriptor("numbers", Types.LONG())
    [backend] = log.backends(1)
    backend.get_list_state(numbers).add_all([1, 2])
    backend.raw.write(RawWritten({0: b"x"}, [b"y", b"z"]))
    changes = log.seal([backend])
    assert [seq for _, rows in changes for seq in rows.column(SEQ).to_pylist()] == [0, 1, 2, 3, 4, 5]
    assert [schema.name for schema in backend.schemas] == ["numbers", RAW_KEYED, RAW_OPERATOR]
    [silent] = log.backends(3)[:1]
    assert silent.holds_state
    assert list(log.backends(1)[0].get_list_state(numbers)) == [1, 2]


def test_without_raw_state_nothing_is_asked_or_written() -> None:
    log = Log()
    [backend] = log.backends(1)
    assert log.seal([backend]) == []
    assert backend.schemas == ()
    assert not backend.holds_state


def test_memory_counts_partitions_and_not_key_groups() -> None:
    log = Log()
    [backend] = log.backends(1)
    backend.raw.write(RawWritten({0: bytes(10_000)}, [bytes(10_000)]))
    log.seal([backend])
    assert backend.rows == 10_000 // 200
