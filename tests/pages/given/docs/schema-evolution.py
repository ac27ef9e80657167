"""A savepoint of a job, and a next release that does not read all of it."""

from flights_code import register, schemas
from samples import flights, savepoint_called


def given(monkeypatch):
    flights(schemas())
    register(monkeypatch, "build_next_release")
    savepoint_called("sp-20261128T104402-894cb17b")
    names = {}
    yield names
    assert names["commands_of_page"]
