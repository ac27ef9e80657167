"""Harnesses that continue from the state that another one sealed."""

from dataclasses import replace


def renewed(harness, made):
    """Returns a harness that was restored from the snapshot of another one, which is closed.

    Args:
        harness: The other one.
        made: Makes a harness.
    """
    snapshot = harness.snapshot()
    harness.close()
    other = made()
    other.initialize_state(snapshot)
    other.open()
    return other


def released(harness, function):
    """Gives a harness another function, as a later release does: new instances continue with the old ones' state."""
    harness.close()
    instances = harness._instances
    instances._spec = replace(instances._spec, function=function)
    harness.open()
    return harness
