"""Workloads of forms in turn: what they are, one process, one row of the report, one limit."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec


class Sizes(NamedTuple):
    """Number of keys, records of an epoch, epochs (the first does not count), and runs of each form."""

    keys: int
    epoch: int
    epochs: int
    rounds: int


class FormWorkload(NamedTuple):
    """One workload.

    Attributes:
        about: What it does, in one line.
        beside: Its forms, in the order in which they run; and with which form of the same run each is compared.
        sizes: Sizes of the thresholds.
        connectors: Spark's connectors that its session needs.
    """

    about: str
    beside: Mapping[str, str]
    sizes: Sizes
    connectors: Sequence[str] = ()


WORKLOADS: Mapping[str, FormWorkload] = MappingProxyType(
    {
        "wide": FormWorkload(
            "Rows of 30 columns of which an operator reads three, next to files of these three.",
            MappingProxyType(
                {
                    "row": "row/narrow",
                    "row/columns": "row/narrow",
                    "row/shown": "row/narrow",
                    "row/narrow": "row/narrow",
                    "aggregate": "aggregate/narrow",
                    "aggregate/narrow": "aggregate/narrow",
                }
            ),
            Sizes(100_000, 200_000, 6, 3),
        ),
        "skew": FormWorkload(
            "Records of which a fifth have one key, and keys by Zipf's law, next to uniform keys.",
            MappingProxyType(
                {
                    f"{function}/{subtasks}/{keys}": f"{function}/{subtasks}/uniform"
                    for function in ("row", "vectorised")
                    for subtasks in (2, 16)
                    for keys in ("uniform", "one key", "zipf")
                }
            ),
            Sizes(100_000, 500_000, 6, 3),
        ),
        "sinks": FormWorkload(
            "A stream that writes its rows to Delta tables, next to one that drops them and to Spark copying a stream.",
            MappingProxyType(
                {
                    "row/none": "row/none",
                    "row/delta": "row/none",
                    "row/six none": "row/none",
                    "row/six deltas": "row/six none",
                    "vectorised/none": "vectorised/none",
                    "vectorised/delta": "vectorised/none",
                    "spark/copy": "vectorised/delta",
                }
            ),
            Sizes(100_000, 1_000_000, 6, 3),
        ),
        "kafka_source": FormWorkload(
            "A running count over a topic of Kafka, next to files, and to Spark that passes both through.",
            MappingProxyType(
                {
                    "pass/parquet": "pass/parquet",
                    "pass/kafka": "pass/parquet",
                    "row/parquet": "row/parquet",
                    "row/kafka": "row/parquet",
                }
            ),
            Sizes(100_000, 1_000_000, 6, 3),
            connectors=("kafka",),
        ),
    }
)


class FormCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one process.

    Attributes:
        workload: A name in `WORKLOADS`.
        keys: Number of keys.
        epoch: Records of an epoch.
        epochs: Number of epochs; the first does not count.
        rounds: How often each form runs.
        work: Empty folder.
    """

    workload: str
    keys: int
    epoch: int
    epochs: int
    rounds: int
    work: str


class FormRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: A name in `WORKLOADS`.
        form: One of its forms.
        keys: Number of keys.
        epoch_records: Records of an epoch.
        runs: How often it ran.
        records_per_second: Median of the runs; of a run, all epochs but the first.
        results_equal: Whether the results are those of a recount, in all runs.
    """

    workload: str
    form: str
    keys: int
    epoch_records: int
    runs: int
    records_per_second: int
    results_equal: bool


class FormLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A form is at least `at_least` times as fast as another one in the same run."""

    workload: str
    of: str
    to: str
    at_least: float


class FormExtra(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a record costs a form beyond another is at most `at_most` times what it costs a third beyond a fourth."""

    workload: str
    of: str
    beyond: str
    through: str
    through_beyond: str
    at_most: float


class FormReport(NamedTuple):
    """Rows, and failures."""

    results: Sequence[FormRow]
    failures: Sequence[str]


__all__ = ["WORKLOADS", "FormCase", "FormExtra", "FormLimit", "FormReport", "FormRow", "FormWorkload", "Sizes"]
