"""`lakestate inspect` and `savepoints diff`."""

import json

import pytest

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.errors import LakestateError
from state_engine.inspect import parse_key
from state_engine.log.paths import LEASES
from state_engine.savepoint import retain
from state_engine.storage import state_reader
from state_engine.testing.changes import append, put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock

LEG = {"origin": "JFK", "minutes": 90}


def rows(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_entries_are_rows_and_what_is_not_published_is_among_them(job) -> None:
    ended = job.run("inspect", "flights", "aircraft/count", "--json")
    assert ended.code == 0
    assert {row["tailnum"]: row["value"] for row in rows(ended.out)} == {"N1": 3, "N2": 4}
    assert {"key_group", "namespace", "position", "seq", "last_access"} < set(rows(ended.out)[0])
    table = job.run("inspect", "flights", "count").out
    assert "aircraft/count: value of bigint, epoch 1/4" in table
    assert "namespace" not in table
    assert "2023-11-14 22:13" in table


def test_an_epoch_of_the_past(job) -> None:
    printed = rows(job.run("inspect", "flights", "count", "--at", "epoch:1/2", "--json").out)
    assert {row["tailnum"]: row["value"] for row in printed} == {"N1": 1, "[red]": 2}
    assert "[red]" in job.run("inspect", "flights", "count", "--at", "checkpoint:1").out


def test_only_some_keys(job) -> None:
    run = ("inspect", "flights")
    assert [row["value"] for row in rows(job.run(*run, "legs", "--key", "N1", "--json").out)] == [LEG]
    assert job.run(*run, "legs", "--key", "N9", "--json").out == ""
    two = job.run(*run, "count", "--key", "N2", "--key", "N1", "--json")
    assert [row["tailnum"] for row in rows(two.out)] == ["N2", "N1"]
    assert [row["value"] for row in rows(job.run(*run, "seen", "--key", '["UA", 2013]', "--json").out)] == [0.5]
    job.builder.epoch({("carrier", "seen"): [put(("UA", None), 1.5, user_key="b")]})
    assert [row["value"] for row in rows(job.run(*run, "seen", "--key", '["UA", null]', "--json").out)] == [1.5]


@pytest.mark.parametrize("key", ["UA", '["UA"]', '["UA", "x"]', "[UA", '["UA", 2013, 1]'])
def test_what_is_no_key_of_the_state_is_wrong_use(job, key: str) -> None:
    ended = job.run("inspect", "flights", "seen", "--key", key)
    assert ended.code == 2
    assert "The key of carrier/seen is carrier string and year int" in ended.err


@pytest.mark.parametrize(
    ("ddl", "text", "key"),
    [
        ("k string", "[1", None),
        ("k string", '["[1"]', ("[1",)),
        ("k bigint", "7", (7,)),
        ("k bigint", "x", None),
        ("k boolean", "true", (True,)),
        ("k boolean", "[false]", (False,)),
        ("k decimal(5,2)", "[1.25]", None),
        ("k int", "[null]", (None,)),
    ],
)
def test_keys_are_read_by_the_types_of_their_columns(ddl: str, text: str, key: tuple | None) -> None:
    schema = state("op", "n", ddl, "int")
    if ddl.startswith("k decimal"):
        assert str(parse_key(schema, text)[0]) == "1.25"
    elif key is None:
        with pytest.raises(LakestateError, match="The key of op/n is k"):
            parse_key(schema, text)
    else:
        assert parse_key(schema, text) == key


def test_long_states_are_cut_and_say_so(job) -> None:
    job.builder.epoch({("aircraft", "legs"): [append(f"N{n}", LEG) for n in range(150)]})
    out = job.run("inspect", "flights", "legs").out
    assert "The first 100 rows; --limit prints more, --json all." in out
    assert out.count("JFK") == 100
    assert job.run("inspect", "flights", "legs", "--limit", "200").out.count("JFK") == 151
    assert len(rows(job.run("inspect", "flights", "legs", "--json").out)) == 151


def test_a_state_that_is_not_there_is_named_with_those_that_are(job) -> None:
    ended = job.run("inspect", "flights", "cuont")
    assert (ended.code, ended.out) == (2, "")
    assert "aircraft/count, aircraft/legs, carrier/seen" in ended.err


def test_an_empty_state_has_no_rows(job) -> None:
    JobBuilder(job.root, "empty", [state("op", "n", "k string", "int")]).epoch()
    assert job.run("inspect", "empty", "n", "--json").out == ""
    assert job.run("inspect", "empty", "n").code == 0


def test_differences_between_two_places(job) -> None:
    ended = job.run("savepoints", "diff", "flights", "checkpoint:1", "latest")
    assert ended.code == 0
    assert [line.split() for line in ended.out.splitlines()[2:5]] == [
        ["aircraft/count", "1", "1", "0", "1"],
        ["aircraft/legs", "0", "0", "0", "1"],
        ["carrier/seen", "0", "0", "0", "1"],
    ]
    assert ["removed", "[red]", "2"] in [line.split() for line in ended.out.splitlines()]
    count = job.run("savepoints", "diff", "flights", "checkpoint:1", "latest", "--json").json[0]
    assert (count["added"], count["type_before"]) == (1, "bigint")
    assert [(one["kind"], one["entry"]["tailnum"]) for one in count["examples"]] == [
        ("added", "N2"),
        ("removed", "[red]"),
    ]
    assert (
        job.run("savepoints", "diff", "flights", "checkpoint:1", "latest", "--examples", "0", "--json").json[0][
            "examples"
        ]
        == []
    )


def test_long_values_are_cut_in_tables_only(job) -> None:
    job.builder.epoch({("aircraft", "legs"): [append("N1", LEG) for _ in range(20)]})
    table = job.run("savepoints", "diff", "flights", "epoch:1/4", "latest").out
    assert "…" in table
    [_, legs, _] = job.run("savepoints", "diff", "flights", "epoch:1/4", "latest", "--json").json
    assert legs["examples"][0]["after"] == [LEG] * 21


def test_a_place_that_is_not_there_cannot_be_compared(job) -> None:
    ended = job.run("savepoints", "diff", "flights", "sp-1", "latest")
    assert (ended.code, ended.out) == (2, "")
    assert "has no savepoint 'sp-1'" in ended.err


@pytest.mark.parametrize(
    "verb",
    [
        ("inspect", "flights", "aircraft/count", "--at", "epoch:1/1", "--json"),
        ("sql", "--job", "flights", "--at", "epoch:1/1", "--live", "--format", "json", "from aircraft.count"),
        ("savepoints", "diff", "flights", "epoch:1/1", "latest", "--json"),
    ],
    ids=lambda verb: verb[0],
)
def test_retention_leaves_what_a_verb_reads(job, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]) -> None:
    publisher = CheckpointPublisher(job.builder.storage, "flights", clock=ManualClock())
    publisher.begin(job.builder.epoch({("aircraft", "count"): [put("N3", 5)]}, checkpoint_id=2))
    assert publisher.completed() is not None
    wanted, read, leases = job.run(*verb), state_reader.read_log_rows, []

    def during(*given):
        leases.append(len(job.builder.storage.list(LEASES)))
        retain(job.root, "flights", RetentionPolicy(grace_ms=0))
        return read(*given)

    with monkeypatch.context() as patch:
        patch.setattr(state_reader, "read_log_rows", during)
        assert job.run(*verb) == wanted
    assert wanted.code == 0
    assert min(leases) >= 1
    assert job.builder.storage.list(LEASES) == []
    retain(job.root, "flights", RetentionPolicy(grace_ms=0))
    ended = job.run(*verb)
    assert (ended.code, "is gone" in ended.err) == (1, True)
