from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.problem import Problem
from ...models.run_record import RunRecord
from ...types import UNSET, Response, Unset


def _get_kwargs(
    run_id: str,
    *,
    if_none_match: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(if_none_match, Unset):
        headers["If-None-Match"] = if_none_match

    if not isinstance(if_match, Unset):
        headers["If-Match"] = if_match

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/runs/{run_id}".format(
            run_id=quote(str(run_id), safe=""),
        ),
    }

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Any | Problem | RunRecord | None:
    if response.status_code == 200:
        response_200 = RunRecord.from_dict(response.json())

        return response_200

    if response.status_code == 304:
        response_304 = cast(Any, None)
        return response_304

    if response.status_code == 401:
        response_401 = Problem.from_dict(response.json())

        return response_401

    if response.status_code == 403:
        response_403 = Problem.from_dict(response.json())

        return response_403

    if response.status_code == 404:
        response_404 = Problem.from_dict(response.json())

        return response_404

    if response.status_code == 408:
        response_408 = Problem.from_dict(response.json())

        return response_408

    if response.status_code == 412:
        response_412 = Problem.from_dict(response.json())

        return response_412

    if response.status_code == 414:
        response_414 = Problem.from_dict(response.json())

        return response_414

    if response.status_code == 422:
        response_422 = Problem.from_dict(response.json())

        return response_422

    if response.status_code == 500:
        response_500 = Problem.from_dict(response.json())

        return response_500

    if response.status_code == 503:
        response_503 = Problem.from_dict(response.json())

        return response_503

    if client.raise_on_unexpected_status:
        raise errors.UnexpectedStatus(response.status_code, response.content)
    else:
        return None


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[Any | Problem | RunRecord]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    run_id: str,
    *,
    client: AuthenticatedClient,
    if_none_match: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> Response[Any | Problem | RunRecord]:
    """Read a run without taking it

     The record is evidence, not a grant: a worker never takes a fencing token from it.

    Needs the scope `read`.

    Args:
        run_id (str):
        if_none_match (str | Unset):
        if_match (str | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | Problem | RunRecord]
    """

    kwargs = _get_kwargs(
        run_id=run_id,
        if_none_match=if_none_match,
        if_match=if_match,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    run_id: str,
    *,
    client: AuthenticatedClient,
    if_none_match: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> Any | Problem | RunRecord | None:
    """Read a run without taking it

     The record is evidence, not a grant: a worker never takes a fencing token from it.

    Needs the scope `read`.

    Args:
        run_id (str):
        if_none_match (str | Unset):
        if_match (str | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | Problem | RunRecord
    """

    return sync_detailed(
        run_id=run_id,
        client=client,
        if_none_match=if_none_match,
        if_match=if_match,
    ).parsed


async def asyncio_detailed(
    run_id: str,
    *,
    client: AuthenticatedClient,
    if_none_match: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> Response[Any | Problem | RunRecord]:
    """Read a run without taking it

     The record is evidence, not a grant: a worker never takes a fencing token from it.

    Needs the scope `read`.

    Args:
        run_id (str):
        if_none_match (str | Unset):
        if_match (str | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | Problem | RunRecord]
    """

    kwargs = _get_kwargs(
        run_id=run_id,
        if_none_match=if_none_match,
        if_match=if_match,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    run_id: str,
    *,
    client: AuthenticatedClient,
    if_none_match: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> Any | Problem | RunRecord | None:
    """Read a run without taking it

     The record is evidence, not a grant: a worker never takes a fencing token from it.

    Needs the scope `read`.

    Args:
        run_id (str):
        if_none_match (str | Unset):
        if_match (str | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | Problem | RunRecord
    """

    return (
        await asyncio_detailed(
            run_id=run_id,
            client=client,
            if_none_match=if_none_match,
            if_match=if_match,
        )
    ).parsed
