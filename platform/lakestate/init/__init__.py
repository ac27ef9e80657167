"""A Dagster project with one stream, which `lakestate init` writes."""

from lakestate.init.writing import write_project

__all__ = ["write_project"]
