"""`lakestate up` and `lakestate down`: the example streams, their input and Dagster as one thing to try."""
