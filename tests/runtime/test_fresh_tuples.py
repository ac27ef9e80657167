"""Functions whose rows need no check for changes: those that make a new tuple for each row, on every code path."""

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from state_engine.runtime.fresh_tuples import gives_fresh_tuples


class Fresh:
    def one(self, value: Any) -> Any:
        return [(value.k, value.n)]

    def of_a_tuple(self, value: Any) -> Any:
        return ((value.k, value.n),)

    def sometimes(self, value: Any) -> Any:
        if value.n:
            return [(value.k, 1)]
        if value.k:
            return []
        return None

    def nothing(self, value: Any) -> None:
        value.n = 1

    def yields(self, value: Any) -> Iterator[Any]:
        for n in range(value.n):
            if n > 2:
                return
            yield value.k, n


class Others:
    row: Any = None

    def kept(self, value: Any) -> Any:
        return [self.row]

    def several(self, value: Any) -> Any:
        return [(value.k, 1), self.row]

    def either(self, value: Any) -> Any:
        return [(value.k, 1) if value.n else self.row]

    def either_list(self, value: Any) -> Any:
        return [(value.k, 1)] if value.n else self.row

    def constant(self, value: Any) -> Any:
        return "rows"

    def last_way(self, value: Any) -> Any:
        if value.n:
            return [(value.k, 1)]
        return self.row

    def wrapped(self, value: Any) -> Any:
        return ([value],)

    def a_row(self, value: Any) -> Any:
        return (value.k, value.n)

    def yields_kept(self, value: Any) -> Iterator[Any]:
        yield value.k, 1
        yield self.row

    def yields_either(self, value: Any) -> Iterator[Any]:
        yield (value.k, 1) if value.n else self.row

    def yields_from(self, value: Any) -> Iterator[Any]:
        yield from self.row

    def yields_and_gets(self, value: Any) -> Iterator[Any]:
        got = yield
        yield got


@pytest.mark.parametrize("name", [name for name in vars(Fresh) if not name.startswith("_")])
def test_fresh_tuples_are_seen(name: str) -> None:
    assert gives_fresh_tuples(getattr(Fresh(), name))


@pytest.mark.parametrize("name", [name for name in vars(Others) if name not in ("row",) and not name.startswith("_")])
def test_rows_of_any_other_function_are_checked(name: str) -> None:
    assert not gives_fresh_tuples(getattr(Others(), name))


def test_what_has_no_code_of_its_own_is_not_known() -> None:
    assert not gives_fresh_tuples(functools.partial(Fresh().one))
    assert not gives_fresh_tuples(len)
