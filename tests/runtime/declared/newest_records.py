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
    """Returns, for each epoch, the changed keys with their newest record before (or None) and after it.

    Records are compared by `repr`, so that NaN equals NaN.

    Args:
        epochs: Their records.
        by: Name of the column; its largest value makes a record the newest. None: the last record is the newest.
        lives: For how many epochs after its own a record still exists; None for ever.
        by_reads: Whether a record that is not the newest prolongs the life of the newest record of its key, too.
    """
    position = None if by is None else NAMES.index(by)
    newest, came, changes = {}, {}, []
    for number, records in enumerate(epochs):
        newest = {key: one for key, one in newest.items() if lives is None or number - came[key] <= lives}
        before = dict(newest)
        for record in records:
            key = record[0]
            current = newest.get(key)
            if current is None or by is None or rank(record[position]) >= rank(current[position]):
                newest[key], came[key] = record, number
            elif by_reads:
                came[key] = number
        changed = [key for key, one in newest.items() if repr(before.get(key)) != repr(one)]
        changes.append({key: (before.get(key), newest[key]) for key in changed})
    return changes
