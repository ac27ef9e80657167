"""Which changes of a source a start accepts, which it must allow explicitly, and which are always refused."""

import json

import pytest
from msgspec.structs import replace

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.request import StartRequest
from state_engine.epoch.source_changes import accepted, carried, check_changes
from state_engine.epoch.source_options import FORMATS, OptionClass, class_of, recorded, shown
from state_engine.epoch.source_paths import followed, same_place, why_not_followed
from state_engine.errors import SourcesChangedError
from state_engine.log.source_records import SourceFingerprint
from state_engine.testing.simulated import Faults, SimulatedCrash
from state_engine.testing.simulator import Simulation, request

FREE, INERT, ASK = OptionClass


def source(kind: str = "json", path: str = "/data/in", **options: str) -> SourceFingerprint:
    return SourceFingerprint(kind=kind, path=path, options=recorded(kind, options))


def refusal(old: SourceFingerprint, new: SourceFingerprint, *allowed: int) -> SourcesChangedError:
    with pytest.raises(SourcesChangedError) as caught:
        check_changes([old], [new], 5, allowed)
    assert caught.value.action
    return caught.value


# Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "option", "expected"),
    [
        ("delta", "skipChangeCommits", FREE),
        ("delta", "skipchangecommits", FREE),
        ("Delta", "ignoreDeletes", FREE),
        ("org.apache.spark.sql.delta.sources.DeltaDataSource", "ignoreDeletes", FREE),
        ("delta", "ignoreChanges", ASK),  # reads rows of rewritten files again
        ("delta", "startingVersion", INERT),
        ("delta", "readChangeFeed", ASK),
        ("parquet", "maxFilesPerTrigger", FREE),
        ("csv", "ignoreMissingFiles", FREE),
        ("csv", "header", ASK),
        ("csv", "skipChangeCommits", ASK),
        ("json", "latestFirst", ASK),
        ("kafka", "kafka.sasl.jaas.config", FREE),
        ("kafka", "kafka.bootstrap.servers", FREE),
        ("kafka", "kafka.isolation.level", ASK),
        ("kafka", "startingOffsetsByTimestamp", INERT),
        ("kafka", "subscribePattern", ASK),
        ("rate-micro-batch", "rowsPerBatch", ASK),
        ("iceberg", "streaming-skip-overwrite-snapshots", FREE),
        ("pulsar", "maxBytesPerTrigger", FREE),
        ("pulsar", "startingPosition", INERT),
        ("pulsar", "failOnDataLoss", ASK),
        ("pulsar", "anything", ASK),
    ],
)
def test_each_option_has_a_class_and_an_unknown_one_has_to_be_allowed(
    kind: str, option: str, expected: OptionClass
) -> None:
    assert class_of(kind, option) is expected


def test_no_option_is_in_two_classes_of_a_format() -> None:
    for row in FORMATS:
        names = [name.lower() for _, options in row.classes for name in options]
        assert len(names) == len(set(names)), row.name


def test_what_changes_freely_is_not_recorded_and_not_compared() -> None:
    before = SourceFingerprint(kind="delta", path="/t", options={"ignoredeletes": "true"})  # as earlier releases did
    after = source("delta", "/t", skipChangeCommits="true", startingVersion="7", maxFilesPerTrigger="1")
    assert after.options == {}
    check_changes([before], [after], 5)


def test_an_option_is_named_as_documented_with_its_values_and_what_to_do() -> None:
    error = refusal(source("delta", "/t"), source("delta", "/t", readchangefeed="true"))
    assert "source 0: option readChangeFeed was not set, is true (may change which records come" in error.message
    assert "allow_changed_sources=[0] (--allow-changed-sources 0)" in error.action
    check_changes([source("delta", "/t")], [source("delta", "/t", readchangefeed="true")], 5, [0])


def test_only_the_sources_that_were_named_may_change() -> None:
    before, after = [source(), source(path="/b")], [source(header="x"), source(path="/b", sep=";")]
    with pytest.raises(SourcesChangedError) as caught:
        check_changes(before, after, 5, [0])
    assert "source 1: option sep" in caught.value.message
    assert "source 0" not in caught.value.message
    assert "allow_changed_sources=[0, 1]" in caught.value.action
    check_changes(before, after, 5, [1, 0])


def test_a_number_that_is_no_sources_is_refused() -> None:
    with pytest.raises(SourcesChangedError, match="no source 3"):
        check_changes([source()], [source()], 5, [3])


def test_topics_in_another_order_are_the_same_topics() -> None:
    check_changes([source("kafka", "", subscribe="a,b")], [source("kafka", "", subscribe="b, a")], 5)
    assert "was a, is a,b" in refusal(source("kafka", "", subscribe="a"), source("kafka", "", subscribe="a,b")).message


def test_what_earlier_releases_did_not_record_is_not_compared_with_a_default() -> None:
    before = SourceFingerprint(kind="kafka", path="", options={"subscribe": "a"})
    after = source("kafka", "", subscribe="a", **{"kafka.isolation.level": "read_committed"})
    check_changes([before], [after], 5)
    assert "was read_committed, is read_uncommitted" in refusal(after, source("kafka", "", subscribe="a")).message
    check_changes([SourceFingerprint(kind="csv", path="/a")], [source("csv", "/a", schema="struct<n:int>")], 5)


# Secrets ----------------------------------------------------------------------------------------------------------


def test_secrets_are_neither_recorded_nor_shown() -> None:
    secret = "hunter2"
    options = {
        "password": secret,
        "sasl.jaas.config": secret,
        "apiToken": secret,
        "eventhubs.connectionString": f"Endpoint=sb://x;SharedAccessKey={secret}",
        "url": f"jdbc:x://me:{secret}@host/db?password={secret}&ssl=true",
    }
    before = SourceFingerprint(kind="other", path=f"s3a://key:{secret}@bucket/a", options=options)
    after = source("other", "s3a://bucket/b")
    recorded_options = source("other", "", **options).options
    assert secret not in json.dumps({k: v for k, v in recorded_options.items() if k != "url"})
    error = refusal(before, after)
    assert secret not in error.message + error.action
    assert "option url was jdbc:x://me:…@host/db?password=…&ssl=true, is not set" in error.message
    assert "option eventhubs.connectionstring was (not shown), is not set" in error.message


def test_a_password_may_be_renewed_and_a_connection_string_is_compared_by_digest() -> None:
    check_changes([source("other", password="a")], [source("other", password="b")], 5)
    old = SourceFingerprint(kind="other", path="/data/in", options={"connectionstring": "Endpoint=a"})  # in clear
    check_changes([old], [source("other", connectionString="Endpoint=a")], 5)
    assert "connectionstring" in refusal(old, source("other", connectionString="Endpoint=b")).message


@pytest.mark.parametrize("value", ["abfss://container@account/path", "a=b", "https://host/x?y=z"])
def test_what_is_no_secret_is_shown(value: str) -> None:
    assert shown("path", value) == value


# What never may change --------------------------------------------------------------------------------------------


def test_another_format_may_not_be_allowed() -> None:
    error = refusal(source("json"), source("csv"), 0)
    assert "source 0: kind was json, is csv (never, since" in error.message
    assert "allow_changed_sources" not in error.action
    check_changes([source("json")], [source("JSON")], 5)


def test_sources_in_another_order_may_not_be_allowed() -> None:
    one, two = source(path="/a"), source(path="/b")
    with pytest.raises(SourcesChangedError, match="the order of sources has changed"):
        check_changes([one, two], [two, one], 5, [0, 1])
    one, two = source("kafka", "", subscribe="a"), source("kafka", "", subscribe="b")
    with pytest.raises(SourcesChangedError, match="it reads what source 1 read"):
        check_changes([one, two], [two, one], 5, [0, 1])


# Places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/in", "/data/in/"),
        ("/data/in", "file:/data/in"),
        ("/data/in", "file:///data/in/"),
        ("/data/in", "/data//in"),
        ("/data/in", "/data/./x/../in"),
        ("//data/in", "/data/in"),
        ("s3://bucket/in", "s3a://bucket/in/"),
        ("s3n://bucket//in", "s3a://bucket/./in"),
        ("abfs://c@a/in", "abfss://c@a/in"),
        ("s3://bucket", "s3://bucket/"),
        ("in", "./in/"),
        ("in", "/started/here/in"),  # an earlier release recorded it as it was written
        ("", ""),
        ("/a b/ü%20", "file:/a b/ü%20"),
    ],
)
def test_spellings_of_one_place(one: str, other: str) -> None:
    assert same_place(one, other)
    check_changes([source(path=one)], [source(path=other)], 5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/in", "/data/in2"),
        ("/data/in", "/data/In"),
        ("s3://bucket/in", "s3://other/in"),
        ("s3://bucket/in", "gs://bucket/in"),
        ("/in", "s3://in"),
        ("", "/in"),
        ("in", "/started/there/begin"),
    ],
)
def test_two_places(one: str, other: str) -> None:
    assert not same_place(one, other)
    assert "path was" in refusal(source(path=one), source(path=other)).message


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ("/a/in", "/b/in", None),
        ("/a/*/x", "/b/*/x", None),
        ("/a/x*", "/a/*", None),
        ("/a/*/x", "/b/*/y", "what it matches"),
        ("s3://b/in", "s3://c/in", "object store"),
        ("/a/in", "s3://c/in", "object store"),
        ("/a/in", "/a/in/new", "is in the other"),
        ("/a/in", "/a", "is in the other"),
        ("in", "/other", "relative"),
    ],
)
def test_whether_files_can_be_found_again_where_a_folder_moved(was: str, now: str, why: str | None) -> None:
    reason = why_not_followed(was, now)
    assert (reason is None) == (why is None)
    if reason is not None and why is not None:
        assert why in reason
        assert why in refusal(source(path=was), source(path=now), 0).message
    else:
        check_changes([source(path=was)], [source(path=now)], 5, [0])


def test_a_folder_does_not_move_into_one_where_it_was_before() -> None:
    reason = why_not_followed("/b", "/a/in", ["/a"])
    assert reason is not None
    assert "is in the other" in reason


@pytest.mark.parametrize(
    ("file", "former", "now", "expected"),
    [
        ("file:///a/x.json", ["/a"], "/b", "file:///b/x.json"),
        ("file:///a/p=1/x.json", ["/a/"], "file:/b/", "file:///b/p=1/x.json"),
        ("file:///a%20b/ü%25/x%20y.json", ["/a b/ü%"], "/c d", "file:///c%20d/x%20y.json"),
        ("file:///ab/x.json", ["/a"], "/b", "file:///ab/x.json"),
        ("file:///b/x.json", ["/a"], "/b", "file:///b/x.json"),
        ("file:///1/x.json", ["/1", "/2"], "/3", "file:///3/x.json"),
        ("file:///2/x.json", ["/1", "/2", "/3"], "/1", "file:///1/x.json"),
        ("file:///a/one/x/f", ["/a/*/x"], "/b/*/x", "file:///b/one/x/f"),
        ("s3://bucket/in/x", ["s3://bucket/in"], "s3a://bucket/in", "s3a://bucket/in/x"),
    ],
)
def test_files_of_a_folder_that_moved(file: str, former: list[str], now: str, expected: str) -> None:
    assert followed(file, former, now) == expected


def test_a_file_source_remembers_where_it_was() -> None:
    first = source(path="/a")
    (second,) = carried([first], [source(path="/b")])
    assert (second.path, second.former) == ("/b", ("/a",))
    (third,) = carried([second], [source(path="/b")])
    assert third == second
    (back,) = carried([second], [source(path="/a")])
    assert back.former == ("/b",)
    assert carried([source("delta")], [source("delta", "/b")])[0].former == ()


def test_a_restore_that_another_start_has_finished_may_have_had_other_sources() -> None:
    simulation = Simulation()
    simulation.finish(Faults())
    head, one = simulation.head.manifest, SourceFingerprint(kind="counted", path="letters")
    assert [str(change)[:31] for change in accepted(head, [one])] == ["source 0: path was numbers, is "]
    assert accepted(head, [one, one]) == []


# Starts -----------------------------------------------------------------------------------------------------------


def changed(start: StartRequest, *allowed: int) -> StartRequest:
    letters = SourceFingerprint(kind="counted", path="letters", options={"case": "upper"})
    return replace(start, fingerprints=(letters,), allow_changed_sources=allowed)


def test_a_start_that_allows_it_records_the_source_so_that_later_ones_need_not() -> None:
    simulation = Simulation()
    simulation.finish(Faults())
    simulation.start(changed(request(), 0))
    assert simulation.head.manifest.fingerprints == changed(request()).fingerprints
    simulation.start(changed(request()))
    with pytest.raises(SourcesChangedError, match="path was letters, is numbers"):
        simulation.start()


def test_a_restore_is_finished_with_what_it_was_allowed_by_the_next_start() -> None:
    simulation = Simulation()
    simulation.finish(Faults())
    wanted = changed(simulation.restore(simulation.world.log.read(1, 5)), 0)
    with pytest.raises(SimulatedCrash):
        simulation.start(wanted, Faults(crashes=[(CrashPoint.S2_CLOSED, None)]))
    closing = simulation.head.manifest
    assert closing.successor is not None
    assert closing.successor.allow_changed_sources == (0,)
    simulation.start(changed(request()))
    head = simulation.head.manifest
    assert (head.generation, head.fingerprints) == (2, wanted.fingerprints)


@pytest.mark.parametrize("job", ["simulated", "fork"])
def test_a_restore_and_a_fork_ask_as_a_start_does(job: str) -> None:
    origin = Simulation()
    driver = origin.start()
    target = driver.step()
    driver.step()
    simulation = origin if job == "simulated" else Simulation(job="fork")
    simulation.world.others["simulated"] = origin.world
    wanted = replace(origin.restore(target), job=job)
    before = dict(simulation.world.storage.objects)
    with pytest.raises(SourcesChangedError, match="option case was not set, is upper"):
        simulation.start(changed(wanted))
    assert simulation.world.storage.objects == before
    simulation.start(changed(wanted, 0))
    assert simulation.head.manifest.fingerprints == changed(wanted).fingerprints
