"""How long a record takes from its file to the log of a Delta table."""
