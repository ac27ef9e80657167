"""What runs in a Python worker: its process, its cache of state, and a subtask's part of an epoch."""
