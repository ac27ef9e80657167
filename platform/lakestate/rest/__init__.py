"""The REST API of running jobs: Flink's, and additional routes."""
