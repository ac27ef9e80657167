"""Sinks in other systems, one folder each. `README.md` lists what they own."""
