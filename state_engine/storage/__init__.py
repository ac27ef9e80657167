"""Durable bytes: the storage port and its implementations, the manifest log, Delta tables and Parquet files."""
