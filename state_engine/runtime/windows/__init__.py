"""Windows as a function that an operator runs."""
