"""The interactive documentation: Swagger UI at `/docs`, from files inside this package.

Nothing comes from another host and no script stands in the page, so it works in a closed network
and under the strict policy below. Links are relative, so it also works behind a proxy that puts a
prefix before every path.

`static/swagger-ui` holds five files of the npm package `swagger-ui-dist` 5.35.0, unchanged but for
the style sheet's last line, which named a source map. To update: `npm pack swagger-ui-dist`.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC_FOLDER: Final = Path(__file__).parent / "static"

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""For the page alone. Swagger UI writes style attributes, hence 'unsafe-inline' for styles."""

_HEADERS: Final = {
    # A browser asks again each time and is answered 304, so an update shows at once.
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
}

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" type="image/svg+xml" href="docs/favicon.svg">
<link rel="stylesheet" href="docs/swagger-ui/swagger-ui.css">
<script src="docs/swagger-ui/swagger-ui-bundle.js" defer></script>
<script src="docs/docs-init.js" defer></script>
</head>
<body>
<noscript>This page needs JavaScript; <a href="{openapi_url}">the OpenAPI document</a> does not.
</noscript>
<div id="swagger-ui" data-openapi-url="{openapi_url}"></div>
</body>
</html>
"""


class _StaticFiles(StaticFiles):
    """Files with this module's headers."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


def install_docs(app: FastAPI) -> None:
    """Serve `/docs`, its files and `/favicon.ico`, none of them in the OpenAPI document.

    Args:
        app: Made with `docs_url=None` and `redoc_url=None`, and with an `openapi_url`.
    """
    assert app.docs_url is None, "FastAPI's own page would answer first, from another host"
    assert app.openapi_url is not None, "there is no document to show"
    page = _PAGE.format(
        title=escape(app.title), openapi_url=escape(app.openapi_url.removeprefix("/"))
    )

    async def docs(_request: Request) -> Response:
        headers = _HEADERS | {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
        return HTMLResponse(page, headers=headers)

    async def favicon(_request: Request) -> Response:
        # Browsers ask for it wherever they look, whatever a page links to.
        return FileResponse(STATIC_FOLDER / "favicon.svg", headers=_HEADERS)

    # A route for GET answers HEAD as well.
    app.add_route("/docs", docs, methods=["GET"], include_in_schema=False)
    app.add_route("/favicon.ico", favicon, methods=["GET"], include_in_schema=False)
    app.mount("/docs", _StaticFiles(directory=STATIC_FOLDER))
