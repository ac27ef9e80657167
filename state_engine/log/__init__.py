"""The log of state changes: records, their bytes, and the fold. Pure: Arrow in, Arrow out, no I/O."""
