import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_buckets import set_environment

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "sinks"))  # whole_job


@pytest.fixture(scope="session")
def faulty_of_this_process() -> Iterator[object]:
    from faulty_s3 import faulty_s3

    with faulty_s3() as server:
        yield server


@pytest.fixture
def faulty(faulty_of_this_process: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A server that plays the faults which the test asks for; the environment says where it is."""
    from faulty_s3 import FaultyS3

    server = faulty_of_this_process
    assert isinstance(server, FaultyS3)
    set_environment(monkeypatch, server.environment())
    yield server
    server.play()
