"""Workload `fraud`: a business function with states of several kinds, alone and in its stream with six sinks."""
