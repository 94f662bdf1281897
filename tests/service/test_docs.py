import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from runlease_service.api.docs import CONTENT_SECURITY_POLICY, STATIC_FOLDER, install_docs

SERVED = ["docs-init.js", "favicon.svg", "swagger-ui/swagger-ui.css", "swagger-ui/LICENSE"]


def app(*, openapi_url: str = "/openapi.json") -> FastAPI:
    made = FastAPI(title="a <b>", docs_url=None, redoc_url=None, openapi_url=openapi_url)
    install_docs(made)
    return made


def client_of(made: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=made), base_url="http://service")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app()) as one:
        yield one


class Page(HTMLParser):
    """What a page loads, and whether a script stands in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.inline: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._in_script = tag == "script"
        self.links += [values[name] or "" for name in ("src", "href") if name in values]
        self.inline += [name for name in values if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.inline.append(data)


async def test_the_page_loads_only_files_of_this_service(client: httpx.AsyncClient) -> None:
    response = await client.get("/docs")
    page = Page(response.text)
    answers = [await client.get(f"http://service/docs/../{link}") for link in page.links]

    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert page.inline == []
    assert len(page.links) == 5
    assert not [link for link in page.links if ":" in link or link.startswith("/")]
    assert {answer.status_code for answer in answers} == {200}


async def test_the_policy_allows_this_service_alone(client: httpx.AsyncClient) -> None:
    response = await client.get("/docs")

    assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY
    assert "script-src 'self';" in CONTENT_SECURITY_POLICY


async def test_names_are_escaped() -> None:
    async with client_of(app(openapi_url='/v1/open"api.json')) as client:
        page = (await client.get("/docs")).text

    assert "<title>a &lt;b&gt;</title>" in page
    assert 'data-openapi-url="v1/open&quot;api.json"' in page


@pytest.mark.parametrize("path", SERVED)
async def test_a_file_is_served_and_asked_for_again(path: str, client: httpx.AsyncClient) -> None:
    response = await client.get(f"/docs/{path}")
    again = await client.get(f"/docs/{path}", headers={"If-None-Match": response.headers["etag"]})

    assert response.content == (STATIC_FOLDER / path).read_bytes()
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert again.status_code == 304


@pytest.mark.parametrize("path", ["/docs", "/favicon.ico", "/docs/docs-init.js"])
async def test_head_answers_like_get_without_a_body(path: str, client: httpx.AsyncClient) -> None:
    get, head = await client.get(path), await client.head(path)

    assert head.status_code == get.status_code == 200
    assert head.headers["content-length"] == get.headers["content-length"]


async def test_a_favicon_keeps_the_console_clean(client: httpx.AsyncClient) -> None:
    response = await client.get("/favicon.ico")

    assert response.headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize("path", ["/docs/", "/docs/nope", "/docs/..%2fdocs.py", "/docs/swagger-ui"])
async def test_nothing_else_is_served(path: str, client: httpx.AsyncClient) -> None:
    assert (await client.get(path)).status_code == 404


async def test_writing_is_not_allowed(client: httpx.AsyncClient) -> None:
    assert (await client.post("/docs")).status_code == 405
    assert (await client.post("/docs/docs-init.js")).status_code == 405


async def test_none_of_it_is_in_the_document(client: httpx.AsyncClient) -> None:
    assert (await client.get("/openapi.json")).json()["paths"] == {}


def test_no_file_names_a_source_map() -> None:
    texts = [one.read_text() for one in _files() if one.suffix in {".js", ".css"}]

    assert len(texts) == 3
    assert not [text for text in texts if re.search(r"sourceMappingURL=\S+\.map", text)]


def test_the_licences_came_along() -> None:
    names = {one.name for one in _files()}

    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"} <= names


def _files() -> list[Path]:
    return [one for one in STATIC_FOLDER.rglob("*") if one.is_file()]
