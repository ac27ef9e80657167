"""Retention: one look decides which files are deleted and which are kept; the steps that do it may end anywhere."""
