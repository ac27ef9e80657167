"""The states of a stream as assets: their place in the lineage, and what their events show."""

import base64
import re
import struct
import threading
import zlib

import dagster as dg
import pyarrow as pa
import pytest

from lakestate.assets import StreamPlan, build_lineage, checkpoint_key, state_key
from lakestate.assets.key_group_image import BARS, key_group_image
from lakestate.assets.state_metadata import column_schema, sample_markdown, spread_metadata
from lakestate.operate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.stream_definitions import build_stream_definitions
from lakestate.stream_plans import seen_plan
from state_engine.inspect import JobView
from state_engine.testing.sample_jobs import SEEN

KEY = state_key("flights", "aircraft/legs")
NUMBERS = {
    "checkpoint_id", "manifest", "completed_at", "lag_s", "changed_rows", "skipped_checkpoints", "generation", "epoch",
    "duration_s", "bytes", "keys", "dagster/row_count", "dagster/uri",
}  # fmt: skip


def tick(stream, instance, **arguments):
    context = dg.build_sensor_context(instance, resources=stream.sensor_resources)
    result = build_checkpoint_sensor("flights", **arguments)(context)
    for event in result.asset_events:
        instance.report_runless_asset_event(event)


def newest(instance, key=KEY):
    return instance.get_latest_materialization_event(key).asset_materialization


def values(instance, key=KEY):
    metadata = newest(instance, key).metadata
    return {name: getattr(entry, "records", None) or entry.value for name, entry in metadata.items()}


def pixels(markdown):
    """Returns width, height and the index of each pixel of the picture in a Markdown text."""
    [data] = re.findall(r"^!\[.+\]\(data:image/png;base64,(.+)\)$", markdown)
    data = base64.b64decode(data, validate=True)
    width, height, depth, colours = struct.unpack(">IIBB", data[16:26])
    assert (depth, colours) == (2, 3)
    start = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[start - 8 : start - 4])
    raw = zlib.decompress(data[start : start + length])
    line = 1 + (width * depth + 7) // 8
    above, lines = bytes(line - 1), []
    for at in range(0, len(raw), line):
        assert raw[at] == 2
        above = bytes((one + up) % 256 for one, up in zip(raw[at + 1 : at + line], above, strict=True))
        lines.append([byte >> shift & 3 for byte in above for shift in (6, 4, 2, 0)][:width])
    return width, height, lines


def test_events_of_states_and_checkpoint_have_the_same_figures(stream, instance):
    stream.checkpoints(1, 2)
    tick(stream, instance)
    state, checkpoint = values(instance), values(instance, checkpoint_key("flights"))
    assert state.keys() >= NUMBERS
    assert checkpoint.keys() >= NUMBERS
    assert (state["dagster/row_count"], state["keys"], state["changed_rows"]) == (20, 20, 40)
    for name in ("checkpoint_id", "epoch", "generation", "completed_at", "duration_s", "skipped_checkpoints"):
        assert state[name] == checkpoint[name]
    assert state["dagster/uri"] == f"{stream.state_store.root}/flights/aircraft/legs"
    assert newest(instance).tags == {"dagster/data_version": "2"}


def test_an_event_shows_columns_rows_and_key_groups(stream, instance):
    stream.checkpoints(1, 1)
    tick(stream, instance)
    metadata = values(instance)
    columns = {column.name: column.type for column in metadata["dagster/column_schema"].columns}
    assert columns == {
        "key_group": "int", "tailnum": "string", "namespace": "string", "value": "bigint", "op": "string",
        "position": "bigint", "seq": "bigint", "last_access": "bigint",
    }  # fmt: skip
    lines = metadata["sample"].splitlines()
    assert lines[:2] == ["| tailnum | value |", "| --- | --- |"]
    assert len(lines) == 2 + 5
    assert re.fullmatch(r"\| `N\d+` \| `1` \|", lines[2])
    groups = metadata["largest_key_groups"]
    assert 0 < len(groups) <= 13
    assert sum(record.data["rows"] for record in groups) == 20
    assert metadata["skew"] == pytest.approx(groups[0].data["rows"] * 13 / 20, abs=0.001)
    width, _, _ = pixels(metadata["key_groups"])
    assert width == 4 * 13


def test_an_event_is_small_and_its_page_shows_the_texts_at_once(stream, instance):
    stream.checkpoints(1, 1)
    tick(stream, instance)
    metadata = values(instance)
    assert all(len(metadata[name]) < 1_000 for name in ("sample", "key_groups")), "longer ones are hidden at first"
    assert len(dg.serialize_value(newest(instance))) < 12_000


def test_state_that_must_not_be_copied_is_not(stream, instance):
    stream.checkpoints(1, 1)
    tick(stream, instance, sample_rows=0)
    assert values(instance)["sample"] == "No rows to show."
    assert "N1" not in dg.serialize_value(newest(instance))


def test_a_state_whose_files_are_gone_is_reported_without_them(stream, instance):
    stream.checkpoints(1, 1)
    tick(stream, instance)
    stream.checkpoints(2, 2)
    stream.log.storage.delete(stream.log.base.path)
    tick(stream, instance)
    metadata = values(instance)
    assert metadata["checkpoint_id"] == 2
    assert metadata["dagster/row_count"] == 20
    assert metadata["dagster/column_schema"] == dg.TableSchema([])
    assert metadata["skew"] is None


def test_the_rows_of_a_key_group_are_a_bar():
    width, height, lines = pixels(key_group_image([0.0, 4.0, 2.0]))
    assert width == 12
    bars = [[line[4 * group] for line in lines] for group in range(3)]
    assert bars[0] == [0] * height
    assert bars[1] == [2] * height, "the largest is red"
    assert bars[2] == [0] * (height // 2) + [1] * (height // 2)


def test_many_key_groups_share_bars_and_few_bytes():
    rows = [float((group * 7919) % 1000) for group in range(32_768)]
    image = key_group_image(rows)
    assert len(image) < 1_000
    assert pixels(image)[0] == 4 * BARS
    assert key_group_image([]) == key_group_image([0.0, 0.0]) == ""


def test_a_table_of_key_groups_has_at_most_twenty_rows():
    metadata = spread_metadata([float(group) for group in range(128)])
    records = metadata["largest_key_groups"].records
    assert [record.data["key_group"] for record in records] == list(range(127, 107, -1))
    assert metadata["skew"].value == pytest.approx(127 * 128 / sum(range(128)), abs=0.001)


def test_values_do_not_become_markdown():
    text = sample_markdown(pa.table({"k": ["a|b", "`x`\n| y", "![](data:…)", "", None, "z" * 200]})).value
    lines = text.splitlines()
    assert len(lines) == 2 + 6
    assert lines[2] == "| `a\\|b` |"
    assert lines[3] == "| `'x' \\| y` |"
    assert lines[4] == "| `![](data:…)` |"
    assert lines[6] == "| `None` |"
    assert len(lines[7]) < 80
    assert sample_markdown(pa.table({"value": [b"123"]})).value.endswith("| `3 bytes` |")


def test_the_columns_of_a_map_state():
    names = [column.name for column in column_schema(SEEN).columns]
    assert names == [
        "key_group", "carrier", "year", "namespace", "user_key", "value", "op", "position", "seq", "last_access",
    ]  # fmt: skip


def test_a_job_that_has_run_has_its_states_in_the_lineage(stream):
    stream.checkpoints(1, 1)
    graph = build_stream_definitions("flights", stream.state_store).resolve_asset_graph()
    node = graph.get(KEY)
    assert not node.is_executable
    assert node.kinds == {"spark", "deltalake"}
    assert node.group_name == "flights/states"
    assert node.description.startswith("Value state of `bigint` of operator `aircraft` in the stream `flights`")
    assert node.parent_keys == {checkpoint_key("flights")}
    graph = build_stream_definitions("flights", stream.state_store, plan=StreamPlan()).resolve_asset_graph()
    assert graph.get(KEY).parent_keys == {checkpoint_key("flights")}


def test_a_job_that_never_ran_has_those_of_its_plan(stream):
    graph = build_stream_definitions("flights", stream.state_store).resolve_asset_graph()
    assert graph.get(KEY).parent_keys == {checkpoint_key("flights")}
    assert graph.get(checkpoint_key("flights")).parent_keys == {dg.AssetKey(["flights", "sources", "flights_source"])}
    graph = build_stream_definitions("flights", stream.state_store, plan=StreamPlan()).resolve_asset_graph()
    assert KEY not in graph.get_all_asset_keys()
    assert graph.get(checkpoint_key("flights")).child_keys == set()


def test_a_store_that_does_not_answer_does_not_keep_a_code_location_from_loading(stream, monkeypatch, caplog):
    release = threading.Event()

    def wait(_):
        release.wait(30)

    monkeypatch.setattr(JobView, "newest", wait)
    assert seen_plan(stream.state_store, "flights", patience_s=0.05) is None
    assert "does not answer" in caplog.text
    release.set()


def test_a_damaged_store_does_not_keep_a_code_location_from_loading(stream, caplog):
    stream.epoch()
    [path] = [info.path for info in stream.log.storage.list("_epochs/g000001", recursive=False)]
    stream.log.storage.delete(path)
    stream.log.storage.put_exclusive(path, b"{}")
    build_stream_definitions("flights", stream.state_store)
    assert "not known yet" in caplog.text


def test_the_lineage_can_name_other_assets(stream):
    stream.checkpoints(1, 1)
    plan = seen_plan(stream.state_store, "flights")
    specs = build_lineage("flights", plan, sources={"source_1": dg.AssetKey("raw")})
    assert dg.AssetKey("raw") not in {spec.key for spec in specs}
