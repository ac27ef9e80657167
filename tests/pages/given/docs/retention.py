"""A job with nine epochs and four checkpoints."""

import msgspec
from blocks import blocks_of
from samples import flights

from lakestate.rest.retention_bodies import RetentionTrigger


def given():
    flights()
    names = {}
    yield names
    assert names["counts"].num_rows > 0
    [body] = [block.text for block in blocks_of("docs/retention.md") if block.language == "json"]
    assert msgspec.json.decode(body, type=RetentionTrigger, strict=True).checkpoints.daily == 7
