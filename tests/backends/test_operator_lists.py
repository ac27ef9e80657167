"""Operator list state: the lists of subtasks, their rows in the log, and how they are split at another parallelism."""

import datetime
import math
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.api import Duration, ListStateDescriptor, Types, ValueStateDescriptor
from state_engine.api.ttl import StateTtlConfig
from state_engine.backends.operator_lists import even_pieces
from state_engine.backends.operator_state import OperatorStateBackend
from state_engine.backends.stored_type import StateValueError
from state_engine.errors import DuplicateStateError, JobDefinitionError, StateTypeChangedError
from state_engine.log.fold import coalesce, fold
from state_engine.log.ops import KEY_GROUP, NAMESPACE, with_position
from state_engine.log.records import StateSchema
from state_engine.storage.state_reader import empty_rows

NUMBERS = ListStateDescriptor("numbers", Types.LONG())


class Log:
    """Sealed rows of all operator states of one operator, and backends on it."""

    def __init__(self) -> None:
        self.rows: list[tuple[StateSchema, pa.Table]] = []
        self.schemas: dict[str, StateSchema] = {}
        self.epoch = 0

    def load(self, schema: StateSchema) -> Iterable[pa.Table]:
        return [rows for of, rows in self.rows if of == schema]

    def backends(self, parallelism: int) -> list[OperatorStateBackend]:
        made = [OperatorStateBackend("op", subtask, parallelism) for subtask in range(parallelism)]
        for backend in made:
            backend.attach(self.schemas.values(), self.load)
        return made

    def seal(self, backends: Sequence[OperatorStateBackend]) -> int:
        """Seals an epoch of all subtasks; returns how many rows it has."""
        self.epoch += 1
        changes = [
            (schema, with_position(rows, self.epoch))
            for backend in backends
            for schema, rows in backend.freeze(1000 * self.epoch, 0)
        ]
        self.rows += changes
        for backend in backends:
            self.schemas |= {schema.name: schema for schema in backend.schemas}
            backend.settle()
            backend.follow(lambda schema: [rows for of, rows in changes if of == schema])
        return sum(rows.num_rows for _, rows in changes)

    def folded(self, name: str = "numbers") -> pa.Table:
        schema = self.schemas[name]
        return fold(schema, [empty_rows(schema), *self.load(schema)])

    def publish(self) -> None:
        """Replaces all rows by their coalesced form."""
        self.rows = [
            (schema, coalesce(schema, [empty_rows(schema), *self.load(schema)])) for schema in self.schemas.values()
        ]


def lists(backends: Sequence[OperatorStateBackend]) -> list[list[int]]:
    return [list(backend.get_list_state(NUMBERS)) for backend in backends]


def filled(contents: Sequence[Sequence[int]]) -> Log:
    log = Log()
    backends = log.backends(len(contents))
    for backend, content in zip(backends, contents, strict=True):
        backend.get_list_state(NUMBERS).add_all(list(content))
    log.seal(backends)
    return log


@pytest.mark.parametrize(
    ("count", "parallelism", "sizes"), [(0, 3, [0, 0, 0]), (2, 3, [1, 1, 0]), (7, 3, [3, 2, 2]), (7, 1, [7])]
)
def test_even_pieces(count: int, parallelism: int, sizes: list[int]) -> None:
    pieces = even_pieces(count, parallelism)
    assert [piece.stop - piece.start for piece in pieces] == sizes
    assert [n for piece in pieces for n in range(piece.start, piece.stop)] == list(range(count))


@given(
    contents=st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1, max_size=5),
    parallelisms=st.lists(st.integers(1, 6), max_size=4),
    asked=st.booleans(),
)
def test_every_parallelism_has_all_elements_once_in_even_pieces(
    contents: list[list[int]], parallelisms: list[int], asked: bool
) -> None:
    log, whole = filled(contents), [n for content in contents for n in content]
    before = len(contents)
    for parallelism in parallelisms:
        backends = log.backends(parallelism)
        if asked:
            pieces = lists(backends)
            expected = (
                contents if parallelism == before else [whole[piece] for piece in even_pieces(len(whole), parallelism)]
            )
            assert pieces == expected
        log.seal(backends)  # the state is split again, whether a function reads it or not
        log.publish()
        contents, before = lists(log.backends(parallelism)), parallelism
        assert [n for content in contents for n in content] == whole
        assert set(log.folded().column(NAMESPACE).to_pylist()) <= {str(parallelism)}
        assert log.seal(log.backends(parallelism)) == 0, "the next epoch writes nothing"


@given(
    contents=st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1, max_size=4), parallelism=st.integers(1, 5)
)
def test_a_union_gives_all_to_each(contents: list[list[int]], parallelism: int) -> None:
    log, whole = filled(contents), [n for content in contents for n in content]
    for _ in range(2):
        backends = log.backends(parallelism)
        assert [list(backend.get_union_list_state(NUMBERS)) for backend in backends] == [whole] * parallelism
        log.seal(backends)
    assert sorted(log.folded().column("value").to_pylist()) == sorted(whole), "each element has one owner"


def test_a_union_sees_what_others_changed_warm_as_restored() -> None:
    log = filled([[1], [2], [3]])
    warm = log.backends(3)
    states = [backend.get_union_list_state(NUMBERS) for backend in warm]
    states[0].add(10)
    states[1].update([20])
    states[2].clear()
    assert list(states[0]) == [1, 10, 2, 3], "the sealed elements of the others"
    log.seal(warm)
    for backend in (*warm, *log.backends(3)):
        assert list(backend.get_union_list_state(NUMBERS)) == [1, 10, 20]


def test_adding_is_logged_as_adding() -> None:
    log = filled([list(range(100)), [7]])
    backends = log.backends(2)
    backends[1].get_list_state(NUMBERS).add(8)
    assert log.seal(backends) == 1
    assert lists(backends) == lists(log.backends(2)) == [list(range(100)), [7, 8]]
    assert set(log.folded().column(KEY_GROUP).to_pylist()) == {0, 1}


def test_a_list_that_is_stored_again_as_it_was_is_not_logged() -> None:
    log = filled([[1, 2], []])
    backends = log.backends(2)
    for backend in backends:
        state = backend.get_list_state(NUMBERS)
        state.update(list(state))
    assert log.seal(backends) == 0
    assert lists(backends) == [[1, 2], []]


@pytest.mark.parametrize(("before", "after"), [(0.0, -0.0), (1.0, 2.0), (math.nan, 1.0)])
def test_what_differs_in_its_bytes_is_logged(before: float, after: float) -> None:
    doubles, log = ListStateDescriptor("numbers", Types.DOUBLE()), Log()
    backends = log.backends(1)
    backends[0].get_list_state(doubles).add(before)
    log.seal(backends)
    backends[0].get_list_state(doubles).update([after])
    assert log.seal(backends) == 2
    [element] = log.backends(1)[0].get_list_state(doubles)
    assert math.copysign(1, element) == math.copysign(1, after)


def test_elements_come_back_as_a_load_gives_them() -> None:
    rows = ListStateDescriptor("rows", Types.ROW_NAMED(["n", "x"], [Types.LONG(), Types.DOUBLE()]))
    log = Log()
    warm = log.backends(1)
    warm[0].get_list_state(rows).add((1, 2))
    log.seal(warm)
    for backend in (*warm, *log.backends(1)):
        [row] = backend.get_list_state(rows)
        assert (row.n, row.x, type(row.x)) == (1, 2.0, float)
    with pytest.raises(StateTypeChangedError, match="rows"):
        log.backends(1)[0].get_list_state(ListStateDescriptor("rows", Types.LONG()))


def test_no_element_changes_without_an_update() -> None:
    nested = ListStateDescriptor("nested", Types.LIST(Types.LONG()))
    log = Log()
    [backend] = log.backends(1)
    given_in = [1, 2]
    state = backend.get_list_state(nested)
    state.add(given_in)
    given_in.append(3)
    next(iter(state)).append(4)
    assert list(state) == [[1, 2]]


def test_nothing_of_an_update_that_raises_is_kept() -> None:
    [backend] = Log().backends(1)
    state = backend.get_list_state(NUMBERS)
    state.add_all([1, 2])
    with pytest.raises(TypeError):
        state.update(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        state.add_all(None)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        state.update(1 // (2 - number) for number in [5, 2])  # type: ignore[arg-type]
    assert list(state) == [1, 2]


def test_a_list_is_read_as_of_the_call() -> None:
    log = filled([[1, 2]])
    [backend] = log.backends(1)
    state = backend.get_list_state(NUMBERS)
    elements = state.get()
    for number in state:
        state.add(number * 10)
    assert (list(elements), list(state)) == ([1, 2], [1, 2, 10, 20])
    state.update(number for number in state if number > 2)  # type: ignore[arg-type]
    state.add_all(state.get())  # type: ignore[arg-type]
    log.seal([backend])
    for place in (backend, *log.backends(1)):
        assert list(place.get_list_state(NUMBERS)) == [10, 20, 10, 20]


def test_several_lists_of_an_operator_do_not_share() -> None:
    log, words, shared = Log(), ListStateDescriptor("words", Types.STRING()), ListStateDescriptor("all", Types.LONG())
    warm = log.backends(2)
    for subtask, backend in enumerate(warm):
        backend.get_list_state(NUMBERS).add(subtask)
        backend.get_list_state(words).add_all(["x", None, f"{subtask}"])
        backend.get_union_list_state(shared).add(subtask)
    log.seal(warm)
    for backend in warm:
        backend.get_list_state(NUMBERS).clear()
    log.seal(warm)
    for backends in (warm, log.backends(2)):
        for subtask, backend in enumerate(backends):
            assert list(backend.get_list_state(NUMBERS)) == []
            assert list(backend.get_list_state(words)) == ["x", None, f"{subtask}"]
            assert list(backend.get_union_list_state(shared)) == [0, 1]
    assert lists(log.backends(3)) == [[], [], []]
    three = [list(backend.get_list_state(words)) for backend in log.backends(3)]
    assert three == [["x", None], ["0", "x"], [None, "1"]]


def test_an_operator_without_elements_logs_nothing() -> None:
    log = Log()
    backends = log.backends(2)
    for backend in backends:
        state = backend.get_list_state(NUMBERS)
        state.add(1)
        state.clear()
    assert log.seal(backends) == 0
    assert lists(log.backends(3)) == [[], [], []]


def test_an_element_of_another_type_is_named() -> None:
    [backend] = Log().backends(1)
    backend.get_list_state(NUMBERS).add(datetime.date(2026, 1, 1))  # type: ignore[arg-type]
    with pytest.raises(StateValueError) as caught:
        backend.freeze(0, 0)
    assert caught.value.__notes__ == ["operator state 'numbers'"]


def test_one_name_is_one_state() -> None:
    [backend] = Log().backends(1)
    state = backend.get_list_state(NUMBERS)
    assert backend.get_list_state(ListStateDescriptor("numbers", Types.LONG())) is state
    with pytest.raises(DuplicateStateError, match="numbers"):
        backend.get_list_state(ListStateDescriptor("numbers", Types.STRING()))
    with pytest.raises(DuplicateStateError, match="union"):
        backend.get_union_list_state(NUMBERS)


def test_what_cannot_be_an_operator_state_is_refused() -> None:
    [backend] = Log().backends(1)
    with pytest.raises(JobDefinitionError, match="ListStateDescriptor"):
        backend.get_list_state(ValueStateDescriptor("value", Types.LONG()))  # type: ignore[arg-type]
    expiring = ListStateDescriptor("expiring", Types.LONG())
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_seconds(1)).build())
    with pytest.raises(JobDefinitionError, match="time to live"):
        backend.get_list_state(expiring)
