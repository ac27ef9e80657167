"""Epochs into systems with transactions, next to the bare loop of the same client."""
