"""The flights that left New York in 2013: a stream, a job with two operators, and a batch recomputation of it."""
