"""Operators that are declared: what they do is said by names, and done by columns."""
