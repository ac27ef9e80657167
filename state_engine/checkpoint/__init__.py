"""Checkpoints: when they fall, how they are folded and published, and where they are listed."""
