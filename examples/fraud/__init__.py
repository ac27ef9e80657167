"""Alerts for payments by card: JSON lines, some late and some malformed, a job with timers and windows, a recount."""
