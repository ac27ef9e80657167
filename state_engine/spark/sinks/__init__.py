"""How the sinks of a job commit output, and take it back."""
