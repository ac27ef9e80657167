"""Operator instances at run time: life cycle, key context, outputs."""
