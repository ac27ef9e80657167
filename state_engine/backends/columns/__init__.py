"""The column methods of states, which a function calls with the keys of a batch."""
