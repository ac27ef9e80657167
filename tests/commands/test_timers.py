"""The timers of an operator are inspected like its other states (`docs/event-time.md`)."""

import json

import pytest

from state_engine.api.timers import TimeDomain
from state_engine.backends.schemas import timer_schema
from state_engine.testing.changes import delete, put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.sample_jobs import COUNT

TIMERS = timer_schema("aircraft", COUNT.key, TimeDomain.EVENT_TIME)


@pytest.fixture
def timers(job) -> None:
    """A job in which timers are registered, registered again, and deleted."""
    builder = JobBuilder(job.root, "reminders", (COUNT, TIMERS))
    timer = ("aircraft", "_event_time_timers")
    builder.epoch({timer: [put("N1", True, user_key=1_000), put("N2", True, user_key=1_000)]})
    builder.epoch({timer: [put("N1", True, user_key=1_000), put("N1", True, user_key=2_000)]})
    builder.epoch({timer: [delete("N2", user_key=1_000), put("N1", True, user_key=1_000, namespace="0/1000")]})


@pytest.mark.usefixtures("timers")
def test_a_timer_is_one_row_however_often_it_was_registered(job) -> None:
    ended = job.run("inspect", "reminders", "aircraft/_event_time_timers", "--key", "N1", "--json")
    assert ended.code == 0
    shown = sorted((row["namespace"] or "", row["user_key"]) for row in map(json.loads, ended.out.splitlines()))
    assert shown == [("", 1_000), ("", 2_000), ("0/1000", 1_000)]
    before = job.run("inspect", "reminders", "aircraft/_event_time_timers", "--at", "epoch:1/1", "--json")
    assert sorted((row["tailnum"], row["user_key"]) for row in map(json.loads, before.out.splitlines())) == [
        ("N1", 1_000),
        ("N2", 1_000),
    ]


@pytest.mark.usefixtures("timers")
def test_people_see_when_a_timer_fires(job) -> None:
    ended = job.run("inspect", "reminders", "aircraft/_event_time_timers", "--key", "N1")
    assert "aircraft/_event_time_timers: timers, epoch 1/3" in ended.out
    assert "1970-01-01 00:00:02.000Z" in ended.out
    assert "last_access" not in ended.out
    assert "boolean" not in ended.out


@pytest.mark.usefixtures("timers")
def test_timers_are_a_table_of_sql(job) -> None:
    query = "select tailnum, user_key from aircraft._event_time_timers where namespace is null order by all"
    ended = job.run("sql", query, "--job", "reminders", "--live", "--format", "csv")
    assert ended.out.splitlines() == ["tailnum,user_key", "N1,1000", "N1,2000"]
