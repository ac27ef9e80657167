"""The row methods of states, which a function calls record by record."""
