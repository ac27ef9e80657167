"""The OpenAPI document and the page say what the route table says."""

import re
from pathlib import Path
from typing import Any

from fake_job import client_of
from starlette.applications import Starlette
from starlette.routing import Route as WebRoute

from lakestate.rest import operation_handlers
from lakestate.rest.routes import ROUTES

PAGE = Path(__file__).parents[2] / "docs" / "rest.md"


def test_the_document_has_every_route_and_nothing_else() -> None:
    with client_of() as client:
        document = client.get("/v1/openapi.json").json()
    operations = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert operations == {(route.method, route.path) for route in ROUTES}
    assert document["openapi"] == "3.1.0"


def test_the_router_answers_what_the_document_says_and_nothing_else() -> None:
    with client_of() as client:
        document = client.get("/openapi.json").json()
        assert isinstance(client.app, Starlette)
        routed = {
            (method, route.path)
            for route in client.app.routes
            if isinstance(route, WebRoute)
            for method in (route.methods or set()) - {"HEAD"}
        }
    documented = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    documented.add(("GET", "/openapi.json"))
    assert routed == {(method, prefix + path) for method, path in documented for prefix in ("", "/v1")}


def test_every_query_parameter_is_declared() -> None:
    with client_of() as client:
        document = client.get("/openapi.json").json()
    handlers = Path(operation_handlers.__file__).read_text(encoding="utf-8")
    asked = set(re.findall(r'call\.query\.get\("([\w-]+)"', handlers))
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    declared = {one["name"] for operation in operations for one in operation["parameters"] if one["in"] == "query"}
    assert declared == asked


def test_every_reference_in_the_document_leads_somewhere() -> None:
    with client_of() as client:
        document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    references = set(_references(document))
    assert len(references) > 20
    assert all(name.removeprefix("#/components/schemas/") in schemas for name in references)
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_every_path_parameter_is_declared() -> None:
    with client_of() as client:
        document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            declared = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert declared == set(re.findall(r"{(\w+)}", path))


def test_the_page_lists_every_route_with_its_summary() -> None:
    listed = re.findall(r"^\| `(GET|POST|PATCH) (/[^`]*)` \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [(route.method, route.path, route.summary) for route in ROUTES]


def test_every_route_is_described_by_a_sentence() -> None:
    assert all(route.summary.endswith(".") for route in ROUTES)


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [document for value in node.values() for document in _references(value)]
    return [document for value in node for document in _references(value)] if isinstance(node, list) else []
