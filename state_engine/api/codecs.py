"""Codecs: how a class of one's own becomes typed columns, and what becomes of values that an older release wrote."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from state_engine.api.types import CodecType
from state_engine.errors import JobDefinitionError

T = TypeVar("T")


class TypeCodec(ABC, Generic[T]):
    """Stores values of a class as values of a type that state can have.

    Each value is stored with the codec's version, as `struct<codec_version:int,value:…>`, so that a later release can
    still read it. Flink's `TypeSerializer` and its snapshot, as far as typed columns need them.

    Attributes:
        version: Of what `encode` writes, from 0; raise it when that changes, and let `decode` read the older ones.
        stored_type: Type of what `encode` returns: anything that a descriptor takes.
    """

    version: ClassVar[int]
    stored_type: ClassVar[Any]

    @abstractmethod
    def encode(self, value: T) -> Any:
        """Returns what is stored for a value; never called with None."""

    @abstractmethod
    def decode(self, stored: Any, version: int) -> T:
        """Returns the value that `encode` was given, by whichever version of the codec.

        Args:
            stored: What `encode` returned. It belongs to this call alone.
            version: Of the codec that wrote it, at most `version`.
        """


_REGISTERED: dict[type, CodecType] = {}


def codec_type(codec: TypeCodec[Any]) -> CodecType:
    """Returns the type of the values of a codec.

    Raises:
        JobDefinitionError: The codec has no version or no stored type.
        UnsupportedTypeError: Its stored type cannot be stored.
    """
    from state_engine.api.type_hints import type_information  # that module knows codecs

    version, stored = getattr(codec, "version", None), getattr(codec, "stored_type", None)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0 or stored is None:
        raise JobDefinitionError(
            f"The codec {type(codec).__name__} has version {version!r} and stored type {stored!r}.",
            action="Give it class attributes: version, a whole number from 0, and stored_type.",
        )
    return CodecType(type_information(stored), codec)


def register_type_codec(kind: type, codec: TypeCodec[Any]) -> None:
    """Lets a class stand where a type is asked for: in descriptors, outputs, and inside dataclasses.

    Args:
        kind: The class.
        codec: Stores its values. It travels to the workers with the job, so registering in the driver is enough.

    Raises:
        JobDefinitionError: The codec is none, or the class has another one.
        UnsupportedTypeError: Its stored type cannot be stored.
    """
    given: tuple[object, object] = kind, codec
    if not isinstance(given[0], type) or not isinstance(given[1], TypeCodec):
        raise JobDefinitionError(
            f"register_type_codec() got {kind!r} and {codec!r}.", action="Give a class and a TypeCodec object."
        )
    known = _REGISTERED.setdefault(kind, codec_type(codec))
    if type(known.codec) is not type(codec):
        raise JobDefinitionError(
            f"{kind.__name__} has the codec {type(known.codec).__name__} already.",
            action="Register one codec per class; raise its version when the stored form changes.",
        )


def registered_codecs() -> dict[type, TypeCodec[Any]]:
    """Returns all registered codecs, by their classes."""
    return {kind: type_info.codec for kind, type_info in _REGISTERED.items()}


def registered(kind: Any) -> CodecType | None:
    """Returns the type of a class that has a codec, None for any other."""
    return _REGISTERED.get(kind) if isinstance(kind, type) else None


__all__ = ["TypeCodec", "codec_type", "register_type_codec", "registered", "registered_codecs"]
