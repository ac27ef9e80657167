"""Readers of changelogs, and what they must know at the end of each epoch."""

from collections import defaultdict

from restoring import renewed

from state_engine.api.output_tag import columns_type
from state_engine.runtime.declared.changelog import ChangelogAggregation
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness


def aggregating(key, aggregates, columns, *, retract, ttl=None, **options):
    """Returns a harness whose rows are a changelog."""
    function = ChangelogAggregation([key], aggregates, columns_type(columns, "the input"), ttl, retract=retract)
    return Harness(function, key, columns, function.output, **options)


def applied(rows, known):
    """Applies the rows of an epoch to what is known by key, and checks that each fits, and says something new."""
    taken = {}
    for key, *results, op in rows:
        if op in ("-U", "-D"):
            assert repr(known[key]) == repr(tuple(results))
            taken[key] = known.pop(key)
        else:
            assert (op == "+U") == (key in taken), "an update follows what it replaces"
            assert key not in known
            known[key] = tuple(results)
            assert key not in taken or repr(taken[key]) != repr(known[key])


def checked(epochs, new, restored, wanted_of, seen=repr):
    """Checks what a reader knows at the end of each epoch.

    Args:
        epochs: The records of each epoch, and all that are there at its end.
        new: Makes a harness.
        restored: Whether each epoch goes on from a snapshot.
        wanted_of: Makes the results of a key, the first column, of its records that are there.
        seen: What of results is looked at; NaN is itself in their text.
    """
    one, known = new(), {}
    one.open()
    for records, there in epochs:
        applied(rows_of(one, *records), known)
        of_key = defaultdict(list)
        for record in there:
            of_key[record[0]].append(record)
        assert {k: seen(r) for k, r in known.items()} == {k: seen(wanted_of(r)) for k, r in of_key.items()}
        if restored:
            one = renewed(one, new)
    one.close()


def rows_of(one, *records):
    """Returns the rows of an epoch with these records."""
    one.process_elements(records)
    rows = [tuple(row) for row in one.extract_output_values()]
    one.clear_output()
    return rows
