"""Sessions for jobs, and Spark's classes ready to be mapped."""
