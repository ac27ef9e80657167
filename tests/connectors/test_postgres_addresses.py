"""Where a `PostgresSink` writes: its address is stable, has no secret, and comes back from a manifest."""

from typing import Any

import pytest

from state_engine.connectors.known import opened, recorded_as
from state_engine.errors import JobDefinitionError
from state_engine.spark import PostgresSink

VARIABLES = ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE", "PGPASSWORD")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("uri", "variables", "place"),
    [
        ("postgresql://loader@db.example:6432/shop", {}, "db.example:6432/shop"),
        ("postgresql://db.example/shop", {}, "db.example:5432/shop"),
        ("postgres://db.example/shop", {"PGPORT": "7"}, "db.example:7/shop"),
        ("postgresql://", {"PGHOST": "h", "PGPORT": "1", "PGDATABASE": "d"}, "h:1/d"),
        ("postgresql:///shop", {}, "localhost:5432/shop"),
        ("postgresql://ann@h", {}, "h:5432/ann"),
        ("postgresql://h", {"PGUSER": "ann"}, "h:5432/ann"),
        ("postgresql://a:1,b:2/shop", {}, "a:1,b:2/shop"),
        ("postgresql://[::1]:5433/shop", {}, "[::1]:5433/shop"),
        ("postgresql://[::1]/shop", {}, "[::1]:5432/shop"),
        ("postgresql:///?host=/run/pg&port=9&dbname=shop", {}, "/run/pg:9/shop"),
        ("postgresql://?service=shop", {}, "service=shop/"),
        ("postgresql:///x", {"PGSERVICE": "shop"}, "service=shop/x"),
    ],
)
def test_places(uri: str, variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert PostgresSink("counts", uri).address == f"{place}/public.counts"


@pytest.mark.parametrize(
    "uri", ["postgresql://ann:secret@h/d", "postgresql://h/d?password=secret", "postgresql://h?sslpassword=secret"]
)
def test_a_password_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(JobDefinitionError, match="PGPASSWORD") as raised:
        PostgresSink("counts", uri)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("uri", ["", "host=db dbname=shop", "jdbc:postgresql://h/d", "mysql://h/d", "postgresql:h"])
def test_other_addresses_are_refused(uri: str) -> None:
    with pytest.raises(JobDefinitionError, match="postgresql://user@host"):
        PostgresSink("counts", uri)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keys": ["k"]}, "appends has no keys"),
        ({"op": "op"}, "appends has no keys"),
        ({"version_by": "v"}, "appends has no keys"),
        ({"mode": "upsert"}, "needs keys"),
        ({"mode": "upsert", "keys": ["k", "k"]}, "needs keys"),
        ({"mode": "upsert", "keys": ["k"], "op": "k"}, "needs keys"),
        ({"mode": "merge", "keys": ["k"]}, "no mode 'merge'"),
        ({"schema": ""}, "has no table"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(JobDefinitionError, match=said):
        PostgresSink("counts", **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"schema": "shop"},
        {"mode": "upsert", "keys": ["k"]},
        {"mode": "upsert", "keys": "k", "version_by": "v", "op": "o"},
    ],
)
def test_a_manifest_has_all_that_a_restore_without_the_code_needs(options: dict[str, Any]) -> None:
    sink = PostgresSink("counts", "postgresql://ann@h:1/d?sslmode=require", **options)
    again = opened(recorded_as("out", sink))
    assert isinstance(again, PostgresSink)
    assert (again.address, again.options, again.upsert) == (sink.address, sink.options, sink.upsert)
