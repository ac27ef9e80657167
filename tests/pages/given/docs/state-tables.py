"""A job with a list `legs` of structs, a map `routes`, and a value `count`."""

import re

from samples import flights


def given():
    builder = flights(epochs=8)
    yield {"run_sql_of_page": is_the_query_for_routes}
    assert builder.rows("aircraft", "routes")


def is_the_query_for_routes(text):
    """The page shows what `state_sql` returns, but for its comment and the list of files."""
    from state_engine.inspect import state_sql

    comment, _, query = state_sql("state", "flights", "aircraft", "routes").partition("\n")
    assert comment.startswith("--")
    assert text.split() == re.sub(r"read_parquet\(\[.*?\]\)", "read_parquet([…])", query, flags=re.DOTALL).split()
