"""Which requests the server accepts."""

import pytest
from fake_job import FakeJob, client_of

from lakestate.rest.guard import Guard, UnsafeAddressError, check_address, is_loopback
from lakestate.rest.server import serve

TOKEN = "correct horse battery"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("127.0.0.1.example.org", False),
        ("", False),
    ],
)
def test_only_this_machines_addresses_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_other_addresses_are_refused_without_a_token(host: str) -> None:
    with pytest.raises(UnsafeAddressError, match="anyone"):
        check_address(host, None)
    with pytest.raises(UnsafeAddressError), serve([], host=host):
        pass
    check_address(host, TOKEN)


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(UnsafeAddressError, match="5 characters"):
        Guard("127.0.0.1", "short")


@pytest.mark.parametrize("path", ["/jobs/overview", "/v1/jobs/overview", "/metrics", "/openapi.json"])
def test_every_path_wants_the_token(path: str) -> None:
    with client_of(FakeJob(), token=TOKEN) as client:
        for headers in (
            {},
            {"Authorization": TOKEN},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": "Bearer é"},
        ):
            refused = client.get(path, headers={name: value.encode() for name, value in headers.items()})
            assert refused.status_code == 401
            assert TOKEN not in refused.text
        assert client.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_refused_request_does_nothing() -> None:
    job = FakeJob()
    with client_of(job, token=TOKEN) as client:
        assert client.patch(f"/jobs/{job.job_id}?mode=cancel").status_code == 401
    assert job.asked == []


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:8081", 200), ("evil.example:8081", 403), ("", 403), ("[", 403)],
)
def test_without_a_token_a_foreign_name_that_points_here_is_refused(host: str, status: int) -> None:
    with client_of(FakeJob()) as client:
        assert client.get("/jobs", headers={"Host": host}).status_code == status


def test_a_web_page_of_another_origin_may_not_change_anything() -> None:
    job = FakeJob()
    with client_of(job) as client:
        path = f"/jobs/{job.job_id}/savepoints"
        refused = client.post(path, content=b"{}", headers={"Origin": "http://evil.example"})
        assert refused.status_code == 403
        assert job.asked == []
        assert client.post(path, content=b"{}", headers={"Origin": "http://localhost:8081"}).status_code == 202
