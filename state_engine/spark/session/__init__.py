"""Spark sessions for jobs, and the Java options that map Spark's classes from an archive."""
