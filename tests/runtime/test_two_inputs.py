"""How records of two inputs share columns."""

import pytest

from state_engine.api.output_tag import columns_type
from state_engine.errors import JobDefinitionError
from state_engine.runtime.shared_columns import SharedColumns
from state_engine.runtime.two_inputs import INPUT, KeyedInput, two_inputs

ORDERS = columns_type("user string, at bigint, item string, price double", "orders")
USERS = columns_type("city string, since bigint, id string, born bigint", "users")


def test_a_record_shares_columns_of_its_types_and_gets_new_ones_for_the_others() -> None:
    shared = SharedColumns(columns_type("a int, b string, c int", "first"))
    assert shared.take(columns_type("x string, y string, z int, w date", "second")) == (1, 3, 0, 4)
    assert shared.columns.names == ("a", "b", "c", "__ls_3", "__ls_4")
    assert [t.ddl() for t in shared.columns.types] == ["int", "string", "int", "string", "date"]
    assert shared.take(columns_type("p int, q int, r int", "third")) == (0, 2, 5)


def test_keys_and_orders_share_columns_with_their_like() -> None:
    two = two_inputs(KeyedInput(ORDERS, ("user",), ("at",)), KeyedInput(USERS, ("id",), ("born",)))
    assert two.columns.names == ("user", "at", "item", "price", "__ls_4", INPUT)
    assert dict(zip(USERS.names, two.places, strict=True)) == {"id": 0, "born": 1, "city": 2, "since": 4}
    assert [two.column_of(1, n) for n in range(6)] == [0, 1, 2, 3, None, None]
    assert [two.column_of(2, n) for n in range(6)] == [2, 3, 0, None, 1, None]


def test_a_column_of_key_and_order_has_one_place() -> None:
    two = two_inputs(KeyedInput(ORDERS, ("user",), ("item", "at")), KeyedInput(USERS, ("id",), ("id", "since")))
    assert dict(zip(USERS.names, two.places, strict=True)) == {"id": 0, "since": 1, "city": 2, "born": 4}


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (KeyedInput(ORDERS, ("user",)), KeyedInput(USERS, ("since",)), r"user \(string\).*since \(bigint\)"),
        (KeyedInput(ORDERS, ("user", "at")), KeyedInput(USERS, ("id",)), r"user, at \(string, bigint\).*id \(string\)"),
        (KeyedInput(ORDERS, ("user",)), KeyedInput(USERS), r"user \(string\).*by nothing"),
        (KeyedInput(ORDERS, ("user", "user")), KeyedInput(USERS, ("id", "city")), "user, user has a column twice"),
        (
            KeyedInput(ORDERS, ("user",), ("at",)),
            KeyedInput(USERS, ("id",), ("city",)),
            r"ordered by at \(bigint\).*city \(string\)",
        ),
    ],
)
def test_what_does_not_fit_is_named(first: KeyedInput, second: KeyedInput, named: str) -> None:
    with pytest.raises(JobDefinitionError, match=named) as caught:
        two_inputs(first, second)
    assert caught.value.action
