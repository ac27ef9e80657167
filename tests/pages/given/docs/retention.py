"""A job with eight epochs and three checkpoints."""

from samples import flights


def given():
    flights(epochs=8)
    names = {}
    yield names
    assert names["counts"].num_rows > 0
