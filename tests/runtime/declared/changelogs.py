"""Readers of changelogs, and the rows that they must have at the end of each epoch."""

from collections import defaultdict

from restoring import renewed

from state_engine.api.output_tag import columns_type
from state_engine.runtime.declared.changelog import ChangelogAggregation
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness


def aggregating(key, aggregates, columns, *, retract, ttl=None, **options):
    """Returns a harness of an aggregation that emits a changelog."""
    function = ChangelogAggregation([key], aggregates, columns_type(columns, "the input"), ttl, retract=retract)
    return Harness(function, key, columns, function.output, **options)


def applied(rows, known):
    """Applies the rows of an epoch to the rows by key, and checks that each one fits and changes something."""
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
    """Checks the rows that a reader has at the end of each epoch.

    Args:
        epochs: The records of each epoch, and all records that exist at its end.
        new: Makes a harness.
        restored: Whether each epoch continues from a snapshot.
        wanted_of: Computes the results of a key, the first column, from its existing records.
        seen: What is compared of results; by default their text, in which NaN equals NaN.
    """
    one, rows = new(), {}
    one.open()
    for records, existing in epochs:
        applied(rows_of(one, *records), rows)
        of_key = defaultdict(list)
        for record in existing:
            of_key[record[0]].append(record)
        assert {k: seen(r) for k, r in rows.items()} == {k: seen(wanted_of(r)) for k, r in of_key.items()}
        if restored:
            one = renewed(one, new)
    one.close()


def rows_of(one, *records):
    """Returns the rows of an epoch with these records."""
    one.process_elements(records)
    rows = [tuple(row) for row in one.extract_output_values()]
    one.clear_output()
    return rows
