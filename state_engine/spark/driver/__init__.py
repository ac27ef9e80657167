"""The running job: how it starts, runs epochs, answers requests and ends."""
