"""Nothing; the history that the page explains can be played."""

from blocks import blocks_of

from state_engine.testing.history_words import parse
from state_engine.testing.simulated_history import find
from state_engine.testing.simulated_processes import stepping


def given():
    yield {}
    [history] = [block.text for block in blocks_of("docs/simulator.md") if block.language == "text"]
    with stepping():
        assert find(parse(history)) is None
