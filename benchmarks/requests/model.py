"""The data types of `requests`: a case, the reported row, and its limits."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from benchmarks.model import Verdict

REQUESTS = "requests"
ROW = "rows.json"

Phase = Literal["start", "epoch", "checkpoint"]

DOLLARS = {"PUT": 5e-6, "LIST": 5e-6, "GET": 4e-7, "HEAD": 4e-7, "DELETE": 0.0}
"""What one request costs: the list price of S3 Standard in us-east-1. Other stores and regions differ by a half."""


class RequestCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one process.

    Attributes:
        subtasks: Parallelism of the operator.
        inlined: Whether small changes are stored in the manifest, which is the default.
        epochs: Number of epochs of which the average counts, and that the checkpoint covers.
        records: Number of records of an epoch.
        work: Empty folder.
    """

    subtasks: int
    inlined: bool
    epochs: int
    records: int
    work: str


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `REQUESTS`.
        phase: `start`: from the call to the claim, of a new job. `epoch`: one epoch with records. `checkpoint`: an
            incremental one over `epochs` epochs, with the last of them.
        subtasks: Parallelism of the operator.
        changes: Where the changes of a subtask are: in the manifest, or in a file of their own.
        epochs: Number of epochs.
        put: Number of PUT requests; also the other numbers are of requests.
        get: GET, without listings.
        head: HEAD.
        list: Listings: GET of a prefix.
        delete: DELETE.
        dollars: What they cost, by `DOLLARS`.
        results_equal: Whether the table has the right rows.
    """

    workload: str = REQUESTS
    phase: Phase
    subtasks: int
    changes: Literal["inlined", "files"]
    epochs: int
    put: float
    get: float
    head: float
    list: float
    delete: float
    dollars: float
    results_equal: bool


class RequestLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A kind of request may not be sent more often than this."""

    phase: Phase
    subtasks: int
    changes: Literal["inlined", "files"]
    kind: Literal["put", "get", "head", "list"]
    at_most: float


def judge_requests(limits: Sequence[RequestLimit], rows: Sequence[RequestRow]) -> Iterator[Verdict]:
    """Yields a verdict for each limit; none when nothing was run."""
    by_case = {(row.phase, row.subtasks, row.changes): row for row in rows}
    for limit in limits if rows else ():
        where = f"{limit.phase}, {limit.subtasks} subtasks, changes {limit.changes}"
        name = f"{REQUESTS}, {where}: {limit.kind.upper()} at most {limit.at_most:g}"
        row = by_case.get((limit.phase, limit.subtasks, limit.changes))
        if row is None:
            yield Verdict(name, None, False, "not measured in this run", (where,))
            continue
        measured = float(getattr(row, limit.kind))
        if not row.results_equal:
            yield Verdict(name, measured, False, "wrong results")
        else:
            yield Verdict(name, measured, measured <= limit.at_most)


__all__ = ["DOLLARS", "REQUESTS", "ROW", "Phase", "RequestCase", "RequestLimit", "RequestRow", "judge_requests"]
