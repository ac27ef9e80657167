"""`lakestate init`: a new project with one stream, its test and its definitions for Dagster."""
