"""Builds the ASGI application: routes to handlers, a guard before each handler, errors in Flink's shape."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as WebRoute

from lakestate.plain_json import encode_plain
from lakestate.rest.bodies import Empty, Errors
from lakestate.rest.calls import Call, Cluster, RefusedError, Text
from lakestate.rest.guard import Guard
from lakestate.rest.openapi import document
from lakestate.rest.routes import ROUTES, Route
from lakestate.rest.triggers import TooManyOperationsError
from state_engine import __version__
from state_engine.causes import report_of
from state_engine.errors import LakestateError
from state_engine.text import UNDECODABLE

MAX_BODY = 64 * 1024
"""Maximum length of a request body in bytes."""
_JSON = "application/json; charset=UTF-8"
_log = logging.getLogger(__name__)


def make_app(cluster: Cluster, guard: Guard, routes: Sequence[Route] = ROUTES) -> Starlette:
    """Returns the ASGI application.

    Args:
        cluster: The jobs, and the operations on them.
        guard: Decides which requests are allowed.
        routes: The routes to serve.
    """
    spec = msgspec.json.encode(document(routes, __version__))

    async def openapi(request: Request) -> Response:
        refusal = guard.refuse(request.method, request.headers)
        return _errors(*refusal) if refusal else Response(spec, media_type=_JSON)

    web = [
        WebRoute(prefix + route.path, _endpoint(route, cluster, guard), methods=[route.method])
        for route in routes
        for prefix in ("", "/v1")
    ]
    web += [WebRoute(f"{prefix}/openapi.json", openapi) for prefix in ("", "/v1")]
    return Starlette(routes=web, exception_handlers={HTTPException: _not_found})


def _endpoint(route: Route, cluster: Cluster, guard: Guard) -> Callable[[Request], Awaitable[Response]]:
    decoder = msgspec.json.Decoder(route.body or Empty)

    async def endpoint(request: Request) -> Response:
        refusal = guard.refuse(request.method, request.headers)
        if refusal is not None:
            return _errors(*refusal)
        try:
            body = decoder.decode(await _read(request) or b"{}")
            call = Call(cluster, request.path_params, request.query_params, body)
            answer = await run_in_threadpool(route.handler, call)
        except RefusedError as error:
            return _errors(error.status, str(error))
        except UNDECODABLE as error:
            name = (route.body or Empty).__name__
            return _errors(400, f"Request did not match expected format {name}: {error}")
        except TooManyOperationsError as error:
            return _errors(503, str(error))
        except LakestateError as error:
            return _errors(500, f"{type(error).__name__}: {report_of(error)}")
        except ClientDisconnect:
            return _errors(400, "The request ended early.")
        except Exception:
            _log.exception("A request to %s %s failed.", route.method, route.path)
            return _errors(500, "Internal server error; the log of the process has the details.")
        if isinstance(answer, Text):
            return Response(answer.content, route.status, media_type=answer.media_type)
        return Response(encode_plain(answer), route.status, media_type=_JSON)

    return endpoint


async def _read(request: Request) -> bytes:
    """Reads the body of any request: Flink's client sends one with GET too.

    Raises:
        RefusedError: It is too long.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise RefusedError(413, f"The body is longer than {MAX_BODY} bytes.")
    return bytes(body)


async def _not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    what = f"Not found: {request.url.path}" if status == 404 else f"{request.method} is not allowed here."
    return _errors(status, what)


def _errors(status: int, message: str) -> Response:
    return Response(encode_plain(Errors(errors=[message])), status, media_type=_JSON)


__all__ = ["MAX_BODY", "make_app"]
