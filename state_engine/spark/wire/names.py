"""Names in Spark SQL, and lists of names that authors give."""

from collections.abc import Iterable

from state_engine.errors import JobDefinitionError


def quote_always(name: str) -> str:
    """Returns a column name quoted, so that Spark SQL accepts any name."""
    return "`" + name.replace("`", "``") + "`"


def column_names(given: object, verb: str) -> tuple[str, ...]:
    """Returns names of columns, from one name or from a list of names.

    Args:
        given: What the author gave.
        verb: The method that the author called, for messages.

    Raises:
        JobDefinitionError: It is something else, such as a function of the record or a `Column` of Spark.
    """
    if isinstance(given, str):
        return (given,)
    is_list = isinstance(given, Iterable) and not isinstance(given, (bytes, dict)) and not callable(given)
    names = []
    for name in given if is_list and not _is_column(given) else (given,):  # type: ignore[attr-defined]
        if isinstance(name, str):
            names.append(name)
        else:
            raise JobDefinitionError(
                f"{verb} takes names of columns, and got {_what(name)}.",
                action='Name the columns, as in key_by("id"). Compute other values in a column before that: '
                '.with_column("k", "upper(id)").key_by("k"). Streams of state_engine.flink take functions.',
            )
    return tuple(names)


def uid_list(given: str | Iterable[str]) -> tuple[str, ...]:
    """Returns uids, from one uid or from several."""
    return (given,) if isinstance(given, str) else tuple(given)


def _is_column(given: object) -> bool:
    return type(given).__name__ == "Column"  # of classic Spark and of Connect, which have no base in common


def _what(name: object) -> str:
    if _is_column(name):
        return f"a Column of Spark ({name})"
    return "a function" if callable(name) else f"{type(name).__name__} ({name!r})"


__all__ = ["column_names", "quote_always", "uid_list"]
