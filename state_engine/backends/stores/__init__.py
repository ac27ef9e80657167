"""The stores of sealed state in memory: dicts by entry, and runs by columns."""
