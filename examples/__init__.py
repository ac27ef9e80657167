"""Jobs to copy (import name: `lakestate.examples`)."""
