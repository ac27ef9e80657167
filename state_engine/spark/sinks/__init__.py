"""How the sinks of a job commit output, and retract it."""
