"""The REST API of running jobs: Flink's, and what it does not have."""
