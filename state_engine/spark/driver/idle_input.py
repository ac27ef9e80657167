"""What an epoch without input reads: an empty DataFrame, in a session like that of the query's batches."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession


class IdleInput:
    """Gives an empty DataFrame for epochs between the batches of a query; made right after the query's start.

    Spark runs a query's batches in a clone of the author's session, made when the query starts. A clone of that clone
    has the same functions, views and settings. So an expression means the same in batches and between them, and neither
    sees what the author changes later.

    Args:
        stream: What the query reads.
        query: Spark's handle of the query.
    """

    def __init__(self, stream: DataFrame, query: Any) -> None:
        batch_session = query._jsq.streamingQuery().sparkSessionForStream()
        clone = batch_session.cloneSession()
        clone.sessionState().catalog()  # the first access copies it, and with it the catalog of the batches
        self._session = SparkSession(stream.sparkSession.sparkContext, clone)
        self._schema = stream._jdf.schema()
        self._empty: DataFrame | None = None

    def frame(self) -> DataFrame:
        """Returns the DataFrame, the same each time: the planner keeps expressions by session."""
        if self._empty is None:
            # Not by createDataFrame(), which would make the clone the active session of the calling thread.
            no_rows = self._session.sparkContext._jsc.emptyRDD().rdd()
            empty = self._session._jsparkSession.internalCreateDataFrame(no_rows, self._schema, False)
            self._empty = DataFrame(empty, self._session)
        return self._empty


__all__ = ["IdleInput"]
