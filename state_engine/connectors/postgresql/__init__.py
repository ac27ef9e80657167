"""The exactly-once sink that writes a table of PostgreSQL."""
