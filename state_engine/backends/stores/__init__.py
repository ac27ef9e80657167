"""Where sealed state lies in memory: dicts by entry, and runs by columns."""
