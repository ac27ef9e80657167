"""Windows as what an operator runs."""
