"""The verbs of the command `lakestate` that operate jobs: one module each."""
