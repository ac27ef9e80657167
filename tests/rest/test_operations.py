"""Operations over HTTP, with Flink's shapes, on a job that has no engine."""

import base64
from typing import Any

import pytest
from fake_job import FakeJob, client_of, result_of

from lakestate.rest.app import MAX_BODY
from lakestate.rest.ids import job_id
from state_engine.errors import SavepointError

ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_savepoint_is_under_way_and_then_has_a_location(prefix: str) -> None:
    job = FakeJob()
    job.let_go.clear()
    with client_of(job) as client:
        path = f"{prefix}/jobs/{job.job_id}/savepoints"
        asked = {"target-directory": None, "cancel-job": False, "formatType": "NATIVE", "triggerId": None}
        begun = client.post(path, json=asked)
        assert begun.status_code == 202
        assert begun.headers["content-type"] == "application/json; charset=UTF-8"
        request_id = begun.json()["request-id"]
        under_way = client.request("GET", f"{path}/{request_id}", content=b"{}").json()
        assert under_way == {"status": {"id": "IN_PROGRESS"}, "operation": None}
        job.let_go.set()
        ended = result_of(client, path, request_id)
    assert ended == {"status": {"id": "COMPLETED"}, "operation": {"location": job.answer}}
    assert job.asked == [("savepoint", "native", None, "", "", None, "")]


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("savepoints", {}, ("savepoint", "canonical", None, "", "", None, "")),
        ("savepoints", {"target-directory": "d"}, ("savepoint", "canonical", "d", "", "", None, "")),
        ("savepoints", {"formatType": "DEFAULT"}, ("savepoint", "canonical", None, "", "", None, "")),
        ("savepoints", {"label": "x", "note": "y", "epoch": 3}, ("savepoint", "canonical", None, "x", "y", 3, "")),
        ("savepoints", {"trigger": "policy:cron"}, ("savepoint", "canonical", None, "", "", None, "policy:cron")),
        (
            "savepoints",
            {"cancel-job": True, "formatType": "NATIVE"},
            ("cancel", "native", None, "", "", None, "", False),
        ),
        ("stop", {"drain": False, "formatType": "NATIVE"}, ("stop", "native", None, "", "", None, "", False)),
        (
            "stop",
            {"drain": True, "targetDirectory": "d", "label": "x", "trigger": "dagster"},
            ("stop", "canonical", "d", "x", "", None, "dagster", True),
        ),
        ("checkpoints", {}, ("checkpoint", False)),
        ("checkpoints", {"checkpointType": "INCREMENTAL"}, ("checkpoint", False)),
        ("checkpoints", {"checkpointType": "FULL"}, ("checkpoint", True)),
    ],
)
def test_a_request_is_passed_on_as_it_was_meant(path: str, body: dict[str, Any], expected: tuple[Any, ...]) -> None:
    job = FakeJob()
    job.answer = 5
    with client_of(job) as client:
        begun = client.post(f"/jobs/{job.job_id}/{path}", json=body)
        assert begun.status_code == 202
        kind = "savepoints" if path == "stop" else path
        ended = result_of(client, f"/jobs/{job.job_id}/{kind}", begun.json()["request-id"])
    assert job.asked == [expected]
    assert ended["operation"] == ({"checkpointId": 5} if kind == "checkpoints" else {"location": "5"})


def test_a_failure_is_an_end_that_flinks_command_line_can_read() -> None:
    job = FakeJob()
    job.error = SavepointError("The disk is full.", action="Make room.")
    with client_of(job) as client:
        for path, kind in (("savepoints", "savepoints"), ("stop", "savepoints"), ("checkpoints", "checkpoints")):
            begun = client.post(f"/jobs/{job.job_id}/{path}", json={}).json()
            cause = result_of(client, f"/jobs/{job.job_id}/{kind}", begun["request-id"])["operation"]["failure-cause"]
            assert cause["class"] == "org.apache.flink.util.FlinkException"
            assert "SavepointError: The disk is full. What to do: Make room." in cause["stack-trace"]
            assert cause["failure"] == {
                "type": "SavepointError",
                "message": "The disk is full.",
                "action": "Make room.",
            }
            assert b"The disk is full." in base64.b64decode(cause["serialized-throwable"])
    assert job.state == "RUNNING"


def test_the_same_trigger_id_begins_one_operation() -> None:
    job = FakeJob()
    with client_of(job) as client:
        path = f"/jobs/{job.job_id}/savepoints"
        for _ in range(3):
            assert client.post(path, json={"triggerId": ID}).json() == {"request-id": ID}
        result_of(client, path, ID)
    assert len(job.asked) == 1


def test_ids_may_come_in_capital_letters() -> None:
    job = FakeJob()
    with client_of(job) as client:
        begun = client.post(f"/jobs/{job.job_id.upper()}/savepoints", json={"triggerId": ID.upper()})
        assert begun.json() == {"request-id": ID}
        result_of(client, f"/jobs/{job.job_id.upper()}/savepoints", ID.upper())
        assert client.get(f"/jobs/{job.job_id.upper()}").json()["jid"] == job.job_id
        assert client.patch(f"/jobs/{job.job_id.upper()}?mode=cancel").status_code == 202
    assert [asked[0] for asked in job.asked][-1] == "cancel"


def test_an_operation_on_an_unknown_job_begins_and_fails() -> None:
    job = FakeJob()
    with client_of(job) as client:
        path = f"/jobs/{job_id('other')}/savepoints"
        begun = client.post(path, json={})
        assert begun.status_code == 202
        cause = result_of(client, path, begun.json()["request-id"])["operation"]["failure-cause"]
    assert cause["class"].endswith("FlinkJobNotFoundException")
    assert f"Could not find Flink job ({job_id('other')})" in cause["stack-trace"]


def test_cancel_is_accepted_and_cancel_of_an_unknown_job_is_not() -> None:
    job = FakeJob()
    with client_of(job) as client:
        assert client.patch(f"/jobs/{ID}?mode=cancel").status_code == 404
        assert client.patch(f"/jobs/{job.job_id}?mode=stop").status_code == 400
        assert job.asked == []
        answer = client.request("PATCH", f"/v1/jobs/{job.job_id}?mode=cancel", content=b"{}")
    assert (answer.status_code, answer.json()) == (202, {})
    assert job.asked == [("cancel",)]


def test_a_savepoint_is_disposed_of_by_its_location_alone() -> None:
    job = FakeJob()
    with client_of(job) as client:
        begun = client.post("/v1/savepoint-disposal", json={"savepoint-path": job.answer})
        assert begun.status_code == 200
        ended = result_of(client, "/v1/savepoint-disposal", begun.json()["request-id"])
        assert ended == {"status": {"id": "COMPLETED"}, "operation": {}}
        begun = client.post("/savepoint-disposal", json={"savepoint-path": "file:/etc/passwd"})
        cause = result_of(client, "/savepoint-disposal", begun.json()["request-id"])["operation"]["failure-cause"]
    assert "No job of this process has a savepoint file:/etc/passwd" in cause["stack-trace"]


def test_a_rescale_is_an_operation() -> None:
    job = FakeJob()
    job.answer = 18
    with client_of(job) as client:
        path = f"/v1/jobs/{job.job_id}/rescaling"
        begun = client.patch(f"{path}?parallelism=4")
        assert begun.status_code == 202
        ended = result_of(client, path, begun.json()["request-id"])
        assert ended == {"status": {"id": "COMPLETED"}, "operation": {}}
        job.error = SavepointError("It cannot.")
        begun = client.patch(f"{path}?parallelism=5").json()
        cause = result_of(client, path, begun["request-id"])["operation"]["failure-cause"]
        assert "It cannot." in cause["stack-trace"]
        assert client.patch(path, json={"operators": {"count": 2}}).status_code == 202
    assert job.asked == [("rescale", 4), ("rescale", 5), ("rescale", {"count": 2})]


def test_the_time_between_two_epochs_is_shown_and_set() -> None:
    job = FakeJob()
    with client_of(job) as client:
        config = client.get(f"/v1/jobs/{job.job_id}/config").json()
        assert config["execution-config"]["user-config"] == {"trigger-interval-ms": "1000"}
        path = f"/v1/jobs/{job.job_id}/trigger?interval-ms=250"
        assert client.patch(path).json()["execution-config"]["user-config"] == {"trigger-interval-ms": "250"}
        job.state = "FINISHED"
        assert client.patch(f"/v1/jobs/{job.job_id}/trigger?interval-ms=0").status_code == 409
    assert job.interval_ms == 250


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"key-groups": [[0, 15], [40, 40]]}, ("sp-1", [(0, 15), (40, 40)], None, None, False)),
        (
            {"keys": ["a", None, ["b", 2]], "operators": ["count"]},
            ("sp-1", None, ["a", None, ("b", 2)], ["count"], False),
        ),
        ({"keys": [], "dry-run": True}, ("sp-1", None, [], None, True)),
    ],
)
def test_key_groups_or_keys_are_restored_and_reported(body: dict[str, Any], expected: tuple[Any, ...]) -> None:
    job = FakeJob()
    with client_of(job) as client:
        path = f"/jobs/{job.job_id}/key-groups"
        begun = client.post(path, json={"source": "sp-1"} | body)
        assert begun.status_code == 202
        report = result_of(client, path, begun.json()["request-id"])["operation"]["report"]
        assert (report["sealed"], report["source"]["savepoint_id"]) == ([2, 18], "sp-1")
        job.error = SavepointError("It cannot.")
        begun = client.post(path, json={"source": "sp-1"} | body).json()
        cause = result_of(client, path, begun["request-id"])["operation"]["failure-cause"]
        assert "It cannot." in cause["stack-trace"]
    assert job.asked[0] == ("key groups", *expected)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/jobs/{job}/key-groups", b'{"source":"sp-1"}', 400),
        ("POST", "/jobs/{job}/key-groups", b'{"source":"sp-1","keys":[1],"key-groups":[[1,2]]}', 400),
        ("POST", "/jobs/{job}/key-groups", b'{"keys":[1]}', 400),
        ("POST", "/jobs/{job}/key-groups", b'{"source":"sp-1\xff"}', 400),
        ("POST", "/jobs/{job}/key-groups", b'{"source":"sp-1","keys":[1],"dryrun":true}', 400),
        ("PATCH", "/jobs/{job}/rescaling", b"{}", 400),
        ("PATCH", "/jobs/{job}/rescaling?parallelism=-1", b"{}", 400),
        ("PATCH", "/jobs/{job}/rescaling?parallelism=many", b"{}", 400),
        ("PATCH", "/jobs/{job}/rescaling?parallelism=2", b'{"operators":{"count":2}}', 400),
        ("PATCH", "/jobs/{job}/rescaling", b'{"operators":{"count":0}}', 400),
        ("PATCH", "/jobs/{job}/rescaling", b'{"operator":{"count":1}}', 400),
        ("PATCH", "/jobs/{job}/trigger", b"", 400),
        ("PATCH", "/jobs/{job}/trigger?interval-ms=-1", b"", 400),
        ("PATCH", "/jobs/{job}/trigger?interval-ms=soon", b"", 400),
        ("POST", "/jobs/{job}/savepoints", b'{"cancel-job":true,"epoch":3}', 400),
        ("POST", "/jobs/{job}/savepoints", b"[1]", 400),
        ("POST", "/jobs/{job}/savepoints", b"{", 400),
        ("POST", "/jobs/{job}/savepoints", b'{"formatType":"XML"}', 400),
        ("POST", "/jobs/{job}/savepoints", b'{"triggerId":"../../etc"}', 400),
        ("POST", "/jobs/{job}/stop", b'{"drain":"yes"}', 400),
        ("POST", "/savepoint-disposal", b"{}", 400),
        ("POST", "/jobs/{job}/stop", b" " * (MAX_BODY + 1), 413),
        ("POST", "/jobs/x/stop", b"{}", 400),
        ("GET", "/jobs/x", b"{}", 400),
        ("GET", "/jobs/..%2F..%2Fetc", b"{}", 404),
        ("GET", f"/jobs/{ID}", b"{}", 404),
        ("GET", "/jobs/{job}/savepoints/x", b"{}", 400),
        ("GET", f"/jobs/{{job}}/savepoints/{ID}", b"{}", 404),
        ("GET", f"/jobs/{{job}}/checkpoints/{ID}", b"{}", 404),
        ("GET", f"/savepoint-disposal/{ID}", b"{}", 404),
        ("GET", "/jobs/{job}/checkpoints/details/9", b"{}", 404),
        ("GET", "/nothing", b"{}", 404),
        ("DELETE", "/jobs/{job}", b"{}", 405),
        ("POST", "/jobs", b"{}", 405),
    ],
)
def test_what_is_refused_is_refused_in_flinks_shape(method: str, path: str, body: bytes, status: int) -> None:
    job = FakeJob()
    with client_of(job) as client:
        answer = client.request(method, path.format(job=job.job_id), content=body)
    assert answer.status_code == status
    assert [*answer.json()] == ["errors"]
    assert len(answer.json()["errors"]) == 1
    assert job.asked == []
