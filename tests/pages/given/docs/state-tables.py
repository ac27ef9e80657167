"""A job with a list `legs` of structs, a map `routes`, and a value `count`."""

import re

from samples import ROUTES, flights

from state_engine.inspect import state_sql
from state_engine.testing.sample_jobs import SCHEMAS


def given():
    flights((*SCHEMAS, ROUTES))
    names = {"run_sql_of_page": is_the_query_for_routes}
    yield names
    assert len(names["commands_of_page"]) == 5


def is_the_query_for_routes(text):
    """The page shows what `state_sql` returns, but for its comment and the list of files."""
    comment, _, query = state_sql("state", "flights", "aircraft", "routes").partition("\n")
    assert comment.startswith("--")
    assert text.split() == re.sub(r"read_parquet\(\[.*?\]\)", "read_parquet(['…'])", query).split()
