"""Compares what the example *visits* has written with a recount of the clicks."""

import json
from datetime import datetime

import pyarrow as pa
from deltalake import DeltaTable
from kafka_reader import read_topic

from lakestate.examples.compare import compare
from lakestate.examples.visits.data import read_part
from lakestate.examples.visits.truth import compute_truth


def check_output(servers: str, topic: str, tables: str, parts: int) -> None:
    """Checks topic and tables of a job that was drained.

    Args:
        servers: The brokers.
        topic: The topic with the visits.
        tables: Folder or address of the tables.
        parts: Number of parts that were read.
    """
    truth = compute_truth([click for part in range(1, parts + 1) for click in read_part(part)])
    sent = [{**json.loads(record.value()), "user": record.key().decode()} for record in read_topic(servers, topic)]
    for row in sent:
        for bound in ("window_start", "window_end"):
            row[bound] = datetime.fromisoformat(row[bound])
    visits, entries = truth.outputs["visits"], truth.outputs["entries"]
    in_table = DeltaTable(f"{tables}/visits").to_pyarrow_table()
    for actual in (pa.Table.from_pylist(sent, visits.schema), in_table.select(visits.column_names)):
        assert compare(actual.cast(visits.schema), visits, truth.keys["visits"]) == (0, 0, 0)
    actual = DeltaTable(f"{tables}/entries").to_pyarrow_table().select(entries.column_names)
    assert compare(actual.cast(entries.schema), entries, truth.keys["entries"]) == (0, 0, 0)


__all__ = ["check_output"]
