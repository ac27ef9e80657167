"""What an ack records about the keys of its subtask."""

import pytest

from state_engine.log.records import Ack, Column, StateSchema, StateStatistics


@pytest.mark.parametrize(
    ("held", "keys"),
    [
        ({"count": 4, "tags": 7}, 7),
        ({"count": 4, "_event_time_timers": 9}, 4),
        ({"count": 0, "_event_time_timers": 9}, 9),
        ({"_event_time_timers": 9}, 9),
        ({}, 0),
    ],
)
def test_timers_are_keys_where_no_other_state_has_any(held: dict[str, int], keys: int) -> None:
    schemas = tuple(
        StateSchema(
            uid="op",
            name=name,
            schema_id=f"op-{name}",
            kind="timer" if name.endswith("timers") else "keyed",
            shape="map" if name.endswith("timers") else "value",
            key=(Column(name="k", type="string"),),
            value="bigint",
        )
        for name in held
    )
    statistics = tuple(StateStatistics(name=name, rows=count, keys=count) for name, count in held.items())
    ack = Ack(uid="op", subtask=0, attempt="a", records_in=0, records_out=0, schemas=schemas, statistics=statistics)
    assert ack.keys == keys
