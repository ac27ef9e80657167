"""Lakestate: run, watch and operate streaming jobs whose state lives in Delta."""
