"""What an epoch without input reads: an empty frame, in a session like that of the query's batches."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession


class IdleInput:
    """Made right behind the start of a query.

    Spark runs a query's batches in a clone of the author's session, of the moment in which the query starts. A clone of
    that clone has the same functions, views and settings: an expression means the same in batches and between them, and
    what the author changes later is seen in neither.

    Args:
        stream: What the query reads.
        query: Spark's handle of the query.
    """

    def __init__(self, stream: DataFrame, query: Any) -> None:
        of_batches = query._jsq.streamingQuery().sparkSessionForStream()
        clone = of_batches.cloneSession()
        clone.sessionState().catalog()  # copied when it is first asked for, and with it that of the batches
        self._session = SparkSession(stream.sparkSession.sparkContext, clone)
        self._schema = stream._jdf.schema()
        self._empty: DataFrame | None = None

    def frame(self) -> DataFrame:
        """Returns the frame, the same each time: the planner keeps expressions by session."""
        if self._empty is None:
            # Not by createDataFrame(), which would make the clone the active session of the calling thread.
            none = self._session.sparkContext._jsc.emptyRDD().rdd()
            empty = self._session._jsparkSession.internalCreateDataFrame(none, self._schema, False)
            self._empty = DataFrame(empty, self._session)
        return self._empty


__all__ = ["IdleInput"]
