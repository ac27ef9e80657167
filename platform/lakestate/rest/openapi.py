"""Builds the OpenAPI document from the route table and the structs that it names."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from lakestate.rest.bodies import Errors
from lakestate.rest.routes import Route

_REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)}")


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Returns an OpenAPI 3.1 document.

    Args:
        routes: The routes of the server.
        version: Of Lakestate.
    """
    named: list[type[msgspec.Struct]] = [
        Errors,
        *(one for route in routes for one in (route.body, route.answer) if one is not None),
    ]
    structs = list(dict.fromkeys(named))
    schemas, components = msgspec.json.schema_components(structs, ref_template=_REFERENCE)
    by_struct: dict[type, Any] = dict(zip(structs, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_struct)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lakestate",
            "version": version,
            "description": "Flink's REST API for the jobs of one process, and additional routes. Every path also works "
            "below /v1.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, schemas: dict[type, Any]) -> dict[str, Any]:
    names = [(name, "path") for name in _PARAMETER.findall(route.path)] + [(name, "query") for name in route.query]
    answer = (
        {"application/json": {"schema": schemas[route.answer]}}
        if route.answer is not None
        else {"text/plain": {"schema": {"type": "string"}}}
    )
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{route.handler.__name__}",
        "summary": route.summary,
        "tags": ["flink" if route.is_flinks else "lakestate"],
        "parameters": [
            {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
            for name, place in names
        ],
        "responses": {
            str(route.status): {"description": "Done.", "content": answer},
            "default": {
                "description": "Refused.",
                "content": {"application/json": {"schema": schemas[Errors]}},
            },
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": schemas[route.body]}}}
    return operation


__all__ = ["document"]
