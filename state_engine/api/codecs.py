"""Codecs: how an author's class is stored as typed columns, and how values of older releases are read."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from state_engine.api.types import CodecType
from state_engine.errors import JobDefinitionError

T = TypeVar("T")


class TypeCodec(ABC, Generic[T]):
    """Stores values of a class as values of a type that state can have.

    Each value is stored with the codec's version, as `struct<codec_version:int,value:…>`, so that a later release can
    still read it. A codec does what typed columns need of Flink's `TypeSerializer` and its snapshot.

    Attributes:
        version: Version of the form that `encode` writes, from 0. When the form changes, raise it, and let `decode`
            read the older versions.
        stored_type: Type of what `encode` returns: any type that a descriptor takes.
    """

    version: ClassVar[int]
    stored_type: ClassVar[Any]

    @abstractmethod
    def encode(self, value: T) -> Any:
        """Returns the stored form of a value; never called with None."""

    @abstractmethod
    def decode(self, stored: Any, version: int) -> T:
        """Returns the value that any version of `encode` stored.

        Args:
            stored: What `encode` returned. No other code uses this object, so the call may change or keep it.
            version: Version of the codec that wrote it; at most the codec's own `version`.
        """


_REGISTERED: dict[type, CodecType] = {}


def codec_type(codec: TypeCodec[Any]) -> CodecType:
    """Returns the type of the values of a codec.

    Raises:
        JobDefinitionError: The codec has no valid version or no stored type.
        UnsupportedTypeError: Values of its stored type cannot be stored.
    """
    from state_engine.api.type_hints import type_information  # that module imports this one

    version, stored = getattr(codec, "version", None), getattr(codec, "stored_type", None)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0 or stored is None:
        raise JobDefinitionError(
            f"The codec {type(codec).__name__} has version {version!r} and stored type {stored!r}.",
            action="Give it class attributes: version, a whole number from 0, and stored_type.",
        )
    return CodecType(type_information(stored), codec)


def register_type_codec(kind: type, codec: TypeCodec[Any]) -> None:
    """Registers a class with its codec, so that it can be used as a type: in descriptors, outputs, inside dataclasses.

    Args:
        kind: The class.
        codec: Stores its values. It is sent to the workers with the job, so registering it in the driver is enough.

    Raises:
        JobDefinitionError: `codec` is not a `TypeCodec`, or the class has another codec.
        UnsupportedTypeError: Values of its stored type cannot be stored.
    """
    given: tuple[object, object] = kind, codec
    if not isinstance(given[0], type) or not isinstance(given[1], TypeCodec):
        raise JobDefinitionError(
            f"register_type_codec() got {kind!r} and {codec!r}.", action="Give a class and a TypeCodec object."
        )
    current = _REGISTERED.setdefault(kind, codec_type(codec))
    if type(current.codec) is not type(codec):
        raise JobDefinitionError(
            f"{kind.__name__} already has the codec {type(current.codec).__name__}.",
            action="Register one codec per class; raise its version when the stored form changes.",
        )


def registered_codecs() -> dict[type, TypeCodec[Any]]:
    """Returns all registered codecs, by their classes."""
    return {kind: type_info.codec for kind, type_info in _REGISTERED.items()}


def registered(kind: Any) -> CodecType | None:
    """Returns the type of a class with a codec; None for any other class."""
    return _REGISTERED.get(kind) if isinstance(kind, type) else None


__all__ = ["TypeCodec", "codec_type", "register_type_codec", "registered", "registered_codecs"]
