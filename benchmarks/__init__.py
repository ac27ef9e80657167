"""Benchmarks: Lakestate next to Spark's own stateful operators, in one run. See README.md."""
