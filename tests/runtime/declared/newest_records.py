"""The newest record of each key, in plain Python, and records for it."""

import math

from hypothesis import strategies as st
from recounts import rank

COLUMNS = "k string, v bigint, d double, s string"
NAMES = ["k", "v", "d", "s"]
RECORD = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from([1.5, math.nan]),
    st.none() | st.sampled_from("xy"),
)
EPOCHS = st.lists(st.lists(RECORD, max_size=8), max_size=5)


def replaced(epochs, by=None, lives=None, *, by_reads=False):
    """Returns of each epoch which record of a key, or None, became which other one; `repr` takes NaN for what it is.

    Args:
        epochs: Their records.
        by: Name of the column whose largest value makes a record the newest; None where the last one is.
        lives: So many epochs behind the one in which it came a record is still there; None for ever.
        by_reads: Whether a record counts as one that came, too, where another one of its key did.
    """
    position = None if by is None else NAMES.index(by)
    newest, came, found = {}, {}, []
    for number, records in enumerate(epochs):
        newest = {key: one for key, one in newest.items() if lives is None or number - came[key] <= lives}
        before = dict(newest)
        for record in records:
            key = record[0]
            there = newest.get(key)
            if there is None or by is None or rank(record[position]) >= rank(there[position]):
                newest[key], came[key] = record, number
            elif by_reads:
                came[key] = number
        changed = [key for key, one in newest.items() if repr(before.get(key)) != repr(one)]
        found.append({key: (before.get(key), newest[key]) for key in changed})
    return found
