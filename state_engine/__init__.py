"""Flink's state management for PySpark streaming jobs, kept in Delta tables keyed by key group."""

__version__ = "0.1.0.dev0"
