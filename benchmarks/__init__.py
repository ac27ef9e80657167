"""Benchmarks: compare Lakestate with Spark's own stateful operators and Apache Flink in one run. See README.md."""
