"""An S3 server for each process of the tests; its buckets are empty at the beginning of each test."""

import os
from collections.abc import Iterator

import pytest

from state_engine.testing.s3_server import S3Server, s3_server

SECRET = "a-secret-that-nobody-may-see"


@pytest.hookimpl(tryfirst=True)  # before the selection looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves tests with a server out of `make check`: each request takes some milliseconds."""
    for item in items:
        if {"s3", "faulty"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def server_of_this_process() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(server_of_this_process: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with the empty buckets `bucket` and `backup`; the environment says where it is."""
    server_of_this_process.reset()
    for name in ("bucket", "backup"):
        server_of_this_process.make_bucket(name)
    set_environment(monkeypatch, server_of_this_process.environment(SECRET))
    return server_of_this_process


def set_environment(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """Gives this process and those that it starts these variables of an object store, and no others."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
