"""Shipped test equipment: conformance suites, the reference model, the simulator, builders of jobs."""
