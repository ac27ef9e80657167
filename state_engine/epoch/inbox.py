"""Passes requests from any thread to the driver's thread. Pure."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """A queue that takes requests from any thread. Once it is closed, it refuses each request; none is forgotten.

    Args:
        refuse: Tells the caller that its request will not be served. It may be called on the caller's thread.
    """

    def __init__(self, refuse: Callable[[T], None]) -> None:
        self._refuse = refuse
        self._requests: deque[T] = deque()
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._requests)

    def put(self, request: T) -> None:
        """Adds a request; from any thread."""
        self._requests.append(request)
        if self._closed:
            self._refuse_all()

    def take(self) -> Iterator[T]:
        """Yields the requests that wait, oldest first, each to one taker only."""
        while True:
            try:
                yield self._requests.popleft()
            except IndexError:  # caught instead of checked before, since another thread may be taking too
                return

    def close(self) -> None:
        """Refuses the requests that wait, and all that come later; calling it again is harmless."""
        self._closed = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        for request in self.take():
            self._refuse(request)


__all__ = ["Inbox"]
