"""Names in Spark SQL."""


def quote_always(name: str) -> str:
    """Returns a column name as Spark SQL takes any name."""
    return "`" + name.replace("`", "``") + "`"


__all__ = ["quote_always"]
