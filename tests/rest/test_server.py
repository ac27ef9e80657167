"""The server on its thread, over a socket."""

import socket
import threading
import time

import pytest
from fake_job import FakeJob

from lakestate.control import Endpoint, RequestRefusedError, fetch, find_endpoint, publish_endpoint
from lakestate.rest.bodies import StopWithSavepoint
from lakestate.rest.server import ServerNotStartedError, serve
from state_engine.savepoint import SavepointRequest

TOKEN = "correct horse battery"


@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_running_job_is_found_by_its_file_and_answers(tmp_path: object, token: str | None) -> None:
    job = FakeJob()
    with serve([job], token=token) as server:
        endpoint = Endpoint(url=server.url, pid=1, incarnation="abc", token=token)
        with publish_endpoint(str(tmp_path), job.name, endpoint):
            assert find_endpoint(str(tmp_path), job.name) == endpoint
    with pytest.raises(OSError, match="refused"):
        fetch(endpoint, "/jobs")


def test_without_the_token_nothing_is_answered() -> None:
    with serve([FakeJob()], token=TOKEN) as server, pytest.raises(RequestRefusedError, match="401"):
        fetch(Endpoint(url=server.url, pid=1, incarnation="abc"), "/jobs")


def test_a_request_with_a_body_is_sent_and_a_refusal_says_why() -> None:
    job = FakeJob()
    with serve([job]) as server:
        endpoint = Endpoint(url=server.url, pid=1, incarnation="abc")
        body = StopWithSavepoint(format_type="NATIVE", drain=True)
        assert b"request-id" in fetch(endpoint, f"/jobs/{job.job_id}/stop", method="POST", body=body)
        with pytest.raises(RequestRefusedError, match=f"Job {'0' * 32} not found .status 404."):
            fetch(endpoint, f"/jobs/{'0' * 32}?mode=cancel", method="PATCH")
        server.deliver(threading.Event(), within_s=0)
    assert job.asked == [("stop", "native", None, "", "", None, "", True)]


def test_a_port_that_is_taken_is_an_error_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerNotStartedError, match=str(port)), serve([], port=port):
            pass


def test_it_waits_until_an_end_was_asked_for() -> None:
    job = FakeJob()
    job.let_go.clear()
    with serve([job]) as server:
        key = server._operations.begin("savepoint", job.job_id, None, lambda: job.trigger_savepoint(SavepointRequest()))
        waiting = threading.Thread(target=server.deliver, args=(threading.Event(), 60.0))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive(), "it is under way"
        job.let_go.set()
        while server._operations.registry.running:
            time.sleep(0.001)
        assert waiting.is_alive(), "no client has asked yet"
        server._operations.registry.look(key)
        waiting.join(10)
        assert not waiting.is_alive()


def test_it_does_not_wait_for_ever_nor_for_those_in_a_hurry() -> None:
    job = FakeJob()
    with serve([job]) as server:
        server._operations.begin("savepoint", job.job_id, None, lambda: job.trigger_savepoint(SavepointRequest()))
        server.deliver(threading.Event(), within_s=0.01)
        hurry = threading.Event()
        hurry.set()
        server.deliver(hurry, within_s=60)
        job.let_go.clear()
        server._operations.begin("savepoint", job.job_id, None, lambda: job.trigger_savepoint(SavepointRequest()))
        server.deliver(hurry, within_s=60)
        job.let_go.set()
