"""A job with the states that the page asks about."""

from samples import ROUTES, flights

from state_engine.testing.sample_jobs import SCHEMAS


def given():
    flights((*SCHEMAS, ROUTES))
    names = {}
    yield names
    assert len(names["commands_of_page"]) == 3
