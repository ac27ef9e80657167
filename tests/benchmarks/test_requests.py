from typing import Any

import pytest

from benchmarks import thresholds
from benchmarks.requests.measure import FULL, SMALL, measure
from benchmarks.requests.model import RequestLimit, RequestRow, judge_requests


def row(**changes: Any) -> RequestRow:
    fields: dict[str, Any] = {
        "phase": "epoch", "subtasks": 16, "changes": "files", "epochs": 1, "put": 20.0, "get": 3.0, "head": 0.0,
        "list": 1.0, "delete": 0.0, "dollars": 1e-4, "results_equal": True,
    }  # fmt: skip
    return RequestRow(**{**fields, **changes})


def test_a_kind_of_request_may_not_be_sent_more_often_than_its_limit() -> None:
    limit = RequestLimit(phase="epoch", subtasks=16, changes="files", kind="put", at_most=20)
    assert [verdict.reached for verdict in judge_requests([limit], [row()])] == [True]
    assert [verdict.reached for verdict in judge_requests([limit], [row(put=20.1)])] == [False]
    assert [verdict.reached for verdict in judge_requests([limit], [row(results_equal=False)])] == [False]
    [open_one] = judge_requests([limit], [row(changes="inlined")])
    assert (open_one.measured, open_one.reached) == (None, False)
    assert list(judge_requests([limit], [])) == []


def test_each_limit_is_of_a_size_that_is_measured() -> None:
    assert {limit.subtasks for limit in thresholds.load().request} <= FULL.keys()


@pytest.mark.long  # two JVMs
@pytest.mark.spark
def test_a_small_run(tmp_path: Any) -> None:
    report = measure(tmp_path, lambda line: None, SMALL)
    assert report.failures == []
    found = {(one.phase, one.changes): one for one in report.results}
    assert len(found) == 6
    assert all(one.results_equal for one in report.results)
    inlined, files = found["epoch", "inlined"], found["epoch", "files"]
    assert files.put >= inlined.put + 2, "a change file of each subtask"
    assert found["checkpoint", "files"].get >= 2 * 3, "change files of three epochs are read"
    assert found["start", "files"].list > 0
