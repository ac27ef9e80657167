"""Looks at jobs and reads their state from outside, without a JVM."""

from state_engine.inspect.activity import JobActivity, activity_of
from state_engine.inspect.diff import EntryDiff, StateDiff, diff_states
from state_engine.inspect.jobs import JobSummary, list_jobs
from state_engine.inspect.keys import empty_state, parse_key, rows_of_key
from state_engine.inspect.published import PublishedStates
from state_engine.inspect.query import list_states, run_sql, show_sql
from state_engine.inspect.read import History, history_at, read_state, schema_of
from state_engine.inspect.reading import history_kept, reading
from state_engine.inspect.scan import find_state, scan_state
from state_engine.inspect.sql import run_state_sql, state_sql
from state_engine.inspect.status import JobStatus, OperatorStatus, status_of
from state_engine.inspect.tables import read_table
from state_engine.inspect.view import JobView, SinkSize, StateSize, open_job

__all__ = [
    "EntryDiff",
    "History",
    "JobActivity",
    "JobStatus",
    "JobSummary",
    "JobView",
    "OperatorStatus",
    "PublishedStates",
    "SinkSize",
    "StateDiff",
    "StateSize",
    "activity_of",
    "diff_states",
    "empty_state",
    "find_state",
    "history_at",
    "history_kept",
    "list_jobs",
    "list_states",
    "open_job",
    "parse_key",
    "read_state",
    "read_table",
    "reading",
    "rows_of_key",
    "run_sql",
    "run_state_sql",
    "scan_state",
    "schema_of",
    "show_sql",
    "state_sql",
    "status_of",
]
