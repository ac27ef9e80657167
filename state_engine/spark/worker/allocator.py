"""glibc's allocator in a worker: what the arrays of one epoch have left is kept for those of the next.

By default it gives memory back to the system at once, and gets it again page by page. A function over batches spent a
third of its time on that: with 500,000 records an epoch 5,000 page faults, 12 of 40 ms.
"""

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_OWN_MAPPING = 32 << 20
"""Larger blocks come from the system and go back to it, as always: glibc takes no larger threshold."""
_KEPT = 128 << 20
"""So much may lie free at the end of the heap."""
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_memory() -> bool:
    """Has this process and its forks keep up to 128 MiB that they have freed, in place of giving it back.

    Returns:
        Whether it does: not where the environment says how glibc shall allocate, or where there is another C library.
    """
    if any(name in os.environ for name in _VARIABLES):
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    return all(set_option(option, size) for option, size in ((_MMAP_THRESHOLD, _OWN_MAPPING), (_TRIM_THRESHOLD, _KEPT)))


__all__ = ["keep_memory"]
