"""A row function and a function over batches continue with each other's state, as if one had run all the time."""

import pytest
from batch_forms import (
    COMMANDED,
    COMMANDS,
    READ,
    RECORDS,
    TTL,
    ByBatch,
    ByRow,
    CommandsByBatch,
    CommandsByRow,
    content,
    run,
)
from hypothesis import given, settings
from hypothesis import strategies as st

TURNS = st.lists(st.booleans(), min_size=2, max_size=5).filter(lambda turns: len(set(turns)) == 2)
"""The form of each epoch; both forms occur."""
LIVES = [("heap", "restored"), ("rocksdb", "restored"), ("rocksdb", "on disk")]
TTLS = {"forever": None, "ttl": TTL, "ttl by reads": READ}


def check_turns(turns, forms, ttl, *of_run):
    """Checks that the forms in turn have the same output and final state as the first one alone."""
    rows, snapshot = run([forms[turn](TTLS[ttl]) for turn in turns], *of_run)
    rows_alone, left_alone = run([forms[0](TTLS[ttl])], *of_run)
    assert rows == rows_alone
    assert content(snapshot) == content(left_alone)


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize(("backend", "between"), LIVES)
@pytest.mark.parametrize("ttl", TTLS)
def test_what_one_adds_the_other_adds_to(backend, between, ttl):
    @settings(max_examples=max(5, settings.default.max_examples // 16))
    @given(st.lists(RECORDS, min_size=2, max_size=5), TURNS)
    def check(epochs, turns):
        check_turns(turns, (ByRow, ByBatch), ttl, epochs, backend, between)

    check()


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize(("backend", "between"), LIVES)
@pytest.mark.parametrize("ttl", TTLS)
def test_what_one_puts_the_other_reads_and_removes(backend, between, ttl):
    @settings(max_examples=max(5, settings.default.max_examples // 16))
    @given(COMMANDED.filter(lambda commanded: len(commanded) > 1), TURNS)
    def check(commanded, turns):
        epochs = [[(key, command) for key in keys] for command, keys in commanded]
        check_turns(turns, (CommandsByRow, CommandsByBatch), ttl, epochs, backend, between)

    check()


@pytest.mark.slow
@pytest.mark.all_pairs
@pytest.mark.parametrize(("backend", "between"), LIVES)
@pytest.mark.parametrize("ttl", TTLS)
@pytest.mark.parametrize("put", [command for command in COMMANDS if command.endswith(("put", "add"))])
def test_what_one_reads_lives_on_for_the_other(backend, between, ttl, put):
    """Each epoch is 10 ms after the last one, and values live for 15 ms: only those of one key are read in time."""
    remove = f"{put.split()[0]} remove"
    commanded = [(put, "aab"), ("read", "a"), ("read", "ab"), (put, "ab"), (remove, "a"), ("read", "ab")]
    epochs = [[(key, COMMANDS.index(command)) for key in keys] for command, keys in commanded]
    for turns in ([0, 1], [1, 0], [0, 1, 1], [1, 0, 0]):
        check_turns(turns, (CommandsByRow, CommandsByBatch), ttl, epochs, backend, between)
