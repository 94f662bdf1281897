from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.list_runs_lease import ListRunsLease
from ...models.list_runs_status import ListRunsStatus
from ...models.problem import Problem
from ...models.run_page import RunPage
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    status: ListRunsStatus | Unset = UNSET,
    owner: str | Unset = UNSET,
    lease: ListRunsLease | Unset = UNSET,
    prefix: str | Unset = UNSET,
    label: list[str] | Unset = UNSET,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(if_match, Unset):
        headers["If-Match"] = if_match

    params: dict[str, Any] = {}

    json_status: str | Unset = UNSET
    if not isinstance(status, Unset):
        json_status = status

    params["status"] = json_status

    params["owner"] = owner

    json_lease: str | Unset = UNSET
    if not isinstance(lease, Unset):
        json_lease = lease

    params["lease"] = json_lease

    params["prefix"] = prefix

    json_label: list[str] | Unset = UNSET
    if not isinstance(label, Unset):
        json_label = label

    params["label"] = json_label

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/runs",
        "params": params,
    }

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Problem | RunPage | None:
    if response.status_code == 200:
        response_200 = RunPage.from_dict(response.json())

        return response_200

    if response.status_code == 401:
        response_401 = Problem.from_dict(response.json())

        return response_401

    if response.status_code == 403:
        response_403 = Problem.from_dict(response.json())

        return response_403

    if response.status_code == 408:
        response_408 = Problem.from_dict(response.json())

        return response_408

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
) -> Response[Problem | RunPage]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    status: ListRunsStatus | Unset = UNSET,
    owner: str | Unset = UNSET,
    lease: ListRunsLease | Unset = UNSET,
    prefix: str | Unset = UNSET,
    label: list[str] | Unset = UNSET,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> Response[Problem | RunPage]:
    """List runs, newest first

     Pages are keyset pages: a page costs the same at any depth, and runs that are made while paging
    neither repeat nor hide another.

    Needs the scope `read`.

    Args:
        status (ListRunsStatus | Unset):
        owner (str | Unset):
        lease (ListRunsLease | Unset):
        prefix (str | Unset):
        label (list[str] | Unset):
        limit (int | Unset):
        cursor (str | Unset):
        if_match (str | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Problem | RunPage]
    """

    kwargs = _get_kwargs(
        status=status,
        owner=owner,
        lease=lease,
        prefix=prefix,
        label=label,
        limit=limit,
        cursor=cursor,
        if_match=if_match,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
    status: ListRunsStatus | Unset = UNSET,
    owner: str | Unset = UNSET,
    lease: ListRunsLease | Unset = UNSET,
    prefix: str | Unset = UNSET,
    label: list[str] | Unset = UNSET,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> Problem | RunPage | None:
    """List runs, newest first

     Pages are keyset pages: a page costs the same at any depth, and runs that are made while paging
    neither repeat nor hide another.

    Needs the scope `read`.

    Args:
        status (ListRunsStatus | Unset):
        owner (str | Unset):
        lease (ListRunsLease | Unset):
        prefix (str | Unset):
        label (list[str] | Unset):
        limit (int | Unset):
        cursor (str | Unset):
        if_match (str | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Problem | RunPage
    """

    return sync_detailed(
        client=client,
        status=status,
        owner=owner,
        lease=lease,
        prefix=prefix,
        label=label,
        limit=limit,
        cursor=cursor,
        if_match=if_match,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    status: ListRunsStatus | Unset = UNSET,
    owner: str | Unset = UNSET,
    lease: ListRunsLease | Unset = UNSET,
    prefix: str | Unset = UNSET,
    label: list[str] | Unset = UNSET,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> Response[Problem | RunPage]:
    """List runs, newest first

     Pages are keyset pages: a page costs the same at any depth, and runs that are made while paging
    neither repeat nor hide another.

    Needs the scope `read`.

    Args:
        status (ListRunsStatus | Unset):
        owner (str | Unset):
        lease (ListRunsLease | Unset):
        prefix (str | Unset):
        label (list[str] | Unset):
        limit (int | Unset):
        cursor (str | Unset):
        if_match (str | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Problem | RunPage]
    """

    kwargs = _get_kwargs(
        status=status,
        owner=owner,
        lease=lease,
        prefix=prefix,
        label=label,
        limit=limit,
        cursor=cursor,
        if_match=if_match,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    status: ListRunsStatus | Unset = UNSET,
    owner: str | Unset = UNSET,
    lease: ListRunsLease | Unset = UNSET,
    prefix: str | Unset = UNSET,
    label: list[str] | Unset = UNSET,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    if_match: str | Unset = UNSET,
) -> Problem | RunPage | None:
    """List runs, newest first

     Pages are keyset pages: a page costs the same at any depth, and runs that are made while paging
    neither repeat nor hide another.

    Needs the scope `read`.

    Args:
        status (ListRunsStatus | Unset):
        owner (str | Unset):
        lease (ListRunsLease | Unset):
        prefix (str | Unset):
        label (list[str] | Unset):
        limit (int | Unset):
        cursor (str | Unset):
        if_match (str | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Problem | RunPage
    """

    return (
        await asyncio_detailed(
            client=client,
            status=status,
            owner=owner,
            lease=lease,
            prefix=prefix,
            label=label,
            limit=limit,
            cursor=cursor,
            if_match=if_match,
        )
    ).parsed
