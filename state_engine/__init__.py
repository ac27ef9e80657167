"""Flink's state management for PySpark streaming jobs, kept in Delta tables keyed by key group."""

# The version of everything: the package, `lakestate --version`, the change log and the archives of a release.
__version__ = "0.2.0.dev0"
