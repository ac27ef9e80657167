"""Iterators over an author's code: a StopIteration that the code raises does not end them silently.

`next()` raises StopIteration when an iterator has no more values. In a generator, Python makes a RuntimeError of it.
`map()`, `filter()`, `zip()` and the iterators of `itertools` end instead, and their reader misses the remaining values.
Therefore the code here iterates what an author returned, and no iterator of ours calls an author's code directly.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from inspect import getattr_static, isdatadescriptor
from types import FunctionType, GeneratorType, MemberDescriptorType
from typing import Any

_STORED: tuple[Any, ...] = ([], (), set(), frozenset(), {}, {}.keys(), {}.values(), {}.items(), deque(), range(0), "")
_KINDS: tuple[Any, ...] = (GeneratorType, *map(type, _STORED), *(type(iter(one)) for one in _STORED))
_SAFE = {kind.__iter__ for kind in _KINDS}
"""The `__iter__` of stored values and of generators: no call of an author's code can end these iterations early."""


def whole(given: Iterable[Any]) -> Iterable[Any]:
    """Returns an author's iterable as one that does not end early.

    It has the same elements, as lazily. If the author's code raises StopIteration, the iterable raises RuntimeError, as
    a generator does. A `__next__` in Python that raises StopIteration means that its iterator ends. A StopIteration
    that another iterator has swallowed is not seen: then `itertools.chain` continues with its next iterator, and
    `zip_longest` fills up.

    Args:
        given: Any iterable, in the form in which the author gave it.

    Raises:
        TypeError: It is not iterable.
    """
    return given if getattr(type(given), "__iter__", None) in _SAFE else _guarded(iter(given))


def making(kind: type) -> Callable[..., Any]:
    """Returns a function that makes objects of a dataclass in `map()`: the class itself if that is safe."""
    return kind if _is_made_by_python_alone(kind) else never_ending(kind)


def never_ending(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls an author's code in `map()`: it raises RuntimeError instead of StopIteration."""

    def called(*values: Any, **named: Any) -> Any:
        try:
            return call(*values, **named)
        except StopIteration as stop:
            name = getattr(call, "__qualname__", type(call).__name__)
            raise RuntimeError(f"{name} raised StopIteration") from stop

    return called


def _is_made_by_python_alone(kind: type) -> bool:
    """Returns whether no code of a dataclass's author runs when an object is made."""
    made: Any = kind
    init, params = made.__init__, getattr(made, "__dataclass_params__", None)
    return (
        params is not None
        and isinstance(init, FunctionType)
        and init.__code__.co_filename == "<string>"  # the file name of methods that `dataclass` writes
        and not hasattr(made, "__post_init__")
        and (params.frozen or made.__setattr__ is object.__setattr__)
        and made.__new__ is object.__new__
        and type(made).__call__ is type.__call__
        and not any(_is_set_by_code(made, name) for name in made.__dataclass_fields__)
    )


def _is_set_by_code(kind: type, field: str) -> bool:
    descriptor = getattr_static(kind, field, None)
    return isdatadescriptor(descriptor) and not isinstance(descriptor, MemberDescriptorType)


def _guarded(given: Iterator[Any]) -> Iterator[Any]:
    """Iterates as a generator, so that a StopIteration raised in here comes out as RuntimeError."""
    iterator, kind = given, type(given)
    # `map` and `filter` are taken apart: if their function is in C, it leaves no frame in a traceback.
    parts: Any = iterator.__reduce__() if kind in (map, filter) else ()
    if kind is map:
        call, *inputs = parts[1]
        for values in zip(*map(whole, inputs), strict=False):
            yield call(*values)
    elif kind is filter:
        accepts, values = parts[1]
        for value in whole(values):
            if accepts(value) if accepts is not None else value:
                yield value
    else:
        while True:
            try:
                value = next(iterator)
            except StopIteration as end:
                if _is_of_other_code(end):
                    raise
                return
            yield value


def _is_of_other_code(end: StopIteration) -> bool:
    """Returns whether a StopIteration is from a function that the iterator called; `__next__` raises its own."""
    below = end.__traceback__.tb_next if end.__traceback__ is not None else None
    return below is not None and below.tb_frame.f_code.co_name.rpartition(".")[2] != "__next__"


__all__ = ["making", "never_ending", "whole"]
