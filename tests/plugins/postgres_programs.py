"""PostgreSQL's programs, which some tests need."""

import os
from pathlib import Path

import pytest

from state_engine.testing.postgres_server import postgres_programs

NO_SERVER = "no PostgreSQL; Debian: apt-get install postgresql"


def needed_programs() -> Path:
    """Returns the folder with the server's programs; skips the test without them, or fails it in CI."""
    programs = postgres_programs()
    if programs is None and os.environ.get("LAKESTATE_POSTGRES") == "required":
        pytest.fail(NO_SERVER)
    if programs is None:
        pytest.skip(NO_SERVER)
    return programs
