"""Looks at jobs and reads their state from outside, without a JVM."""

from state_engine.inspect.jobs import JobSummary, list_jobs
from state_engine.inspect.query import list_states, run_sql, show_sql
from state_engine.inspect.read import History, history_at, read_state, schema_of
from state_engine.inspect.sql import run_state_sql, state_sql
from state_engine.inspect.status import JobStatus, OperatorStatus, status_of
from state_engine.inspect.tables import read_table
from state_engine.inspect.view import JobView, SinkSize, StateSize, open_job

__all__ = [
    "History",
    "JobStatus",
    "JobSummary",
    "JobView",
    "OperatorStatus",
    "SinkSize",
    "StateSize",
    "history_at",
    "list_jobs",
    "list_states",
    "open_job",
    "read_state",
    "read_table",
    "run_sql",
    "run_state_sql",
    "schema_of",
    "show_sql",
    "state_sql",
    "status_of",
]
