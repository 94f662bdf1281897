"""The list: filters, keyset pages, and ids and labels compared code point by code point."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any, Final

import pytest

from tests.clock import ManualClock
from tests.service.api import Api, record_of, refused
from tests.service.fixtures import AppMaker, ClientMaker

MAX: Final = "\U0010ffff"
"""The last code point: nothing comes after it."""


async def ids(client: Api, **filters: str | int | list[str]) -> list[str]:
    page = (await client.page(**filters)).raise_for_status().json()
    return [run["runId"] for run in page["runs"]]


async def all_pages(client: Api, limit: int, **filters: str | int | list[str]) -> list[str]:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await client.page(limit=limit, **filters, **cursor)).raise_for_status().json()
        assert len(page["runs"]) <= limit
        found += [run["runId"] for run in page["runs"]]
        if "nextCursor" not in page:
            return found
        assert len(page["runs"]) == limit
        cursor = {"cursor": page["nextCursor"]}


async def enqueue_all(client: Api, run_ids: list[str], **fields: Any) -> None:  # noqa: ANN401
    answers = await asyncio.gather(*(client.enqueue(run_id, **fields) for run_id in run_ids))
    assert {answer.status_code for answer in answers} <= {200, 201}


async def test_an_empty_list_is_an_empty_page(client: Api) -> None:
    assert (await client.page()).json() == {"runs": []}


async def test_each_filter_lets_through_what_it_names(client: Api, clock: ManualClock) -> None:
    await client.enqueue("queued", labels={"team": "a", "k": "v"})
    await client.acquire("live", "w1", 10_000, labels={"team": "a"})
    await client.acquire("expired", "w1", 1_000)
    await client.acquire("other", "w2", 10_000, labels={"team": "b"})
    for run_id, to in (("done", "completed"), ("paused", "suspended"), ("broken", "failed")):
        await client.acquire(run_id, "w1")
        await client.transition(run_id, 1, to, "w1")
    await client.cancel("queued")
    await client.enqueue("waiting")
    clock.advance(ms=1_000)

    async def found(**filters: str | int | list[str]) -> set[str]:
        return set(await ids(client, **filters))

    assert await found(status="queued") == {"waiting"}
    assert await found(status="running") == {"live", "expired", "other"}
    assert await found(status="cancelled") == {"queued"}
    assert await found(status="suspended") == {"paused"}
    assert await found(status="failed") == {"broken"}
    assert await found(status="completed") == {"done"}
    assert await found(owner="w1") == {"live", "expired"}
    assert await found(owner="w") == set()
    assert await found(lease="live") == {"live", "other"}
    assert await found(lease="expired") == {"expired"}
    assert await found(lease="none") == {"queued", "done", "paused", "broken", "waiting"}
    assert await found(label="team=a") == {"queued", "live"}
    assert await found(label=["team=a", "k=v"]) == {"queued"}
    assert await found(label=["team=a", "team=b"]) == set()
    assert await found(owner="w1", lease="live") == {"live"}
    assert await found(status="completed", owner="w1") == set()
    assert await found(status="queued", lease="live") == set()
    assert await found(prefix="o", label="team=b", owner="w2", status="running") == {"other"}


async def test_a_lease_is_live_until_exactly_its_end(client: Api, clock: ManualClock) -> None:
    await client.acquire("x", ttl=1_000)
    clock.advance(ms=999)
    assert (await ids(client, lease="live"), await ids(client, lease="expired")) == (["x"], [])
    clock.advance(ms=1)
    assert (await ids(client, lease="live"), await ids(client, lease="expired")) == ([], ["x"])


async def test_newest_come_first_and_ties_are_ordered_by_code_points(
    client: Api, clock: ManualClock
) -> None:
    tied = ["a", "B", "b", "é", "e\u0301", "Z", "\uffff", "\U00010000", "😀", MAX]
    await enqueue_all(client, tied)
    clock.advance(ms=1)
    await client.enqueue("newest")

    assert await ids(client) == ["newest", *sorted(tied, reverse=True)]
    assert await all_pages(client, 3) == ["newest", *sorted(tied, reverse=True)]


async def test_a_thousand_runs_made_at_once_are_paged_by_sevens(
    client: Api, clock: ManualClock
) -> None:
    """All have the same createdAt, so only the second half of the position tells them apart."""
    runs = [f"r{number:04}" for number in range(1_000)]
    random.Random(7).shuffle(runs)
    await enqueue_all(client, runs[:500], labels={"half": "1"})
    await enqueue_all(client, runs[500:], labels={"half": "2"})
    owned = sorted(runs[:100], reverse=True)
    answers = await asyncio.gather(*(client.acquire(run_id, "w") for run_id in owned))
    assert {answer.status_code for answer in answers} == {200}
    newest_first = sorted(runs, reverse=True)

    assert await all_pages(client, 7) == newest_first
    assert await all_pages(client, 7, owner="w") == owned
    assert await all_pages(client, 7, status="running", lease="live") == owned
    assert await all_pages(client, 7, status="queued", prefix="r09") == [
        run_id for run_id in newest_first if run_id.startswith("r09") and run_id not in owned
    ]
    assert await all_pages(client, 7, label="half=2", prefix="r00") == [
        run_id for run_id in newest_first if run_id.startswith("r00") and run_id in runs[500:]
    ]
    assert await all_pages(client, 1_000) == newest_first
    assert len(await ids(client)) == 100
    assert await all_pages(client, 500) == newest_first


async def test_runs_made_while_paging_neither_repeat_nor_hide_another(
    client: Api, clock: ManualClock
) -> None:
    before = [f"r{number:02}" for number in range(30)]
    await enqueue_all(client, before)
    found: list[str] = []
    cursor: dict[str, str] = {}
    for turn in range(20):
        # Some tie with what is listed, some are newer; a listed run moves, another goes.
        page = (await client.page(limit=4, **cursor)).raise_for_status().json()
        found += [run["runId"] for run in page["runs"]]
        await client.enqueue(f"zz-{turn}")
        await client.acquire(found[0])
        clock.advance(ms=1)
        await client.enqueue(f"newer-{turn}")
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}

    assert [run_id for run_id in found if run_id in before] == sorted(before, reverse=True)
    assert len(found) == len(set(found))
    assert not [run_id for run_id in found if run_id.startswith("newer")]


async def test_a_cursor_outlives_the_run_that_it_names(client: Api) -> None:
    await enqueue_all(client, ["a", "b", "c", "d"])
    page = (await client.page(limit=2)).json()
    await client.delete("c")
    await client.delete("d")

    assert await ids(client, cursor=page["nextCursor"]) == ["b", "a"]


PREFIXED: Final = (
    "a",
    "a%b",
    "a%",
    "a_b",
    "aXb",
    "A",
    "a/b",
    "a/b/c",
    "a0",
    "b",
    "\ud7ff",
    "\ud7ffx",
    "\ue000",
    "\uffff",
    "\uffffx",
    "\U00010000",
    MAX,
    MAX + "a",
    MAX + MAX,
    "a" + MAX,
    "a" + MAX + "b",
    "é",
    "e\u0301",
    "e",
    "*",
    "[a]",
    "\\",
    "'",
    '"',
)


async def test_a_prefix_is_compared_code_point_by_code_point(client: Api) -> None:
    await enqueue_all(client, list(PREFIXED))
    for prefix in (*PREFIXED, "a%%", "_", "%", "?", "[", "\u0301", "\x7e", " "):
        expected = sorted(
            (run_id for run_id in PREFIXED if run_id.startswith(prefix)), reverse=True
        )
        assert await ids(client, prefix=prefix) == expected, ascii(prefix)
        assert await all_pages(client, 1, prefix=prefix) == expected, ascii(prefix)
    assert len(await ids(client, prefix="")) == len(PREFIXED)


async def test_a_label_is_split_at_its_first_equals_sign_and_compared_whole(client: Api) -> None:
    labels = {
        "plain": {"k": "v"},
        "equals in value": {"k": "v=w"},
        "only equals": {"k": "="},
        "empty": {"k": ""},
        "other": {"K": "v"},
        "longer": {"k": "vv"},
        "wild": {"k": "%"},
        "accent": {"k": "é"},
    }
    for run_id, given in labels.items():
        record_of(await client.enqueue(run_id, labels=given), 201)

    assert await ids(client, label="k=v") == ["plain"]
    assert await ids(client, label="k=v=w") == ["equals in value"]
    assert await ids(client, label="k==") == ["only equals"]
    assert await ids(client, label="k=") == ["empty"]
    assert await ids(client, label="k=%") == ["wild"]
    assert await ids(client, label="k=e\u0301") == []


async def test_labels_that_read_alike_are_found_alike(client: Api) -> None:
    """The filter is the text `key=value`, and a key may hold an equals sign too."""
    record_of(await client.enqueue("value", labels={"a": "b=c"}), 201)
    record_of(await client.enqueue("key", labels={"a=b": "c"}), 201)
    both = {"a": "b=c", "a=b": "c"}
    assert record_of(await client.enqueue("both", labels=both), 201)["labels"] == both

    assert await all_pages(client, 1, label="a=b=c") == ["value", "key", "both"]
    swapped = record_of(await client.get("both")) | {"version": 2, "labels": {"a=b": "c"}}
    record_of(await client.put(swapped, If_Match='"1"'))
    assert await ids(client, label="a=b=c") == ["value", "key", "both"]


async def test_labels_go_with_their_run(client: Api) -> None:
    await client.enqueue("x", labels={"k": "v"})
    await client.delete("x")
    assert await ids(client, label="k=v") == []
    await client.enqueue("x", labels={"k": "w"})
    assert (await ids(client, label="k=v"), await ids(client, label="k=w")) == ([], ["x"])

    record = record_of(await client.get("x"))
    swapped = record | {"version": 2, "labels": {"k": "u"}}
    record_of(await client.put(swapped, If_Match='"1"'))
    assert (await ids(client, label="k=w"), await ids(client, label="k=u")) == ([], ["x"])


def _token(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "!!!!",
        "====",
        "é",
        "a" * 5_000,
        _token(""),
        _token("x"),
        _token("{}"),
        _token([]),
        _token([1]),
        _token([1, "x", 2]),
        _token(["1", "x"]),
        _token([1.0, "x"]),
        _token([True, "x"]),
        _token([None, "x"]),
        _token([1, 2]),
        _token([1, ""]),
        _token([1, ".."]),
        _token([1, "a\x00"]),
        _token('[1,"\ud800"]'),
        _token([1, "x" * 513]),
        _token([2**63, "x"]),
        _token([10**400, "x"]),
        _token("[NaN,1]"),
        _token("[" * 2_000),
        _token({"a": 1, "b": 2}),
        _token('"ab"'),
    ],
)
async def test_a_cursor_that_is_none_is_refused(client: Api, cursor: str) -> None:
    await client.enqueue("x")

    problem = refused(await client.page(cursor=cursor), 422, "RUN_VALIDATION_ERROR")

    assert problem["field"] == "cursor"


async def test_no_cursor_shows_more_than_its_filters_do(client: Api, clock: ManualClock) -> None:
    await enqueue_all(client, ["a", "b", "c"])
    await client.acquire("b", "w")
    page = (await client.page(limit=1)).json()

    assert await ids(client, cursor=page["nextCursor"], owner="w") == ["b"]


async def test_the_page_size_follows_the_settings(
    make_app: AppMaker, make_client: ClientMaker
) -> None:
    client = make_client(make_app(list_limit_default=2, list_limit_max=3))
    await enqueue_all(client, ["a", "b", "c", "d"])

    assert len(await ids(client)) == 2
    assert len(await ids(client, limit=3)) == 3
    refused(await client.page(limit=4), 422, "RUN_VALIDATION_ERROR")


async def test_b51_ids_that_look_alike_stay_different_runs(client: Api) -> None:
    look_alikes = ["é", "e\u0301", "K", "\u212a", "k", "É", "ﬁ", "fi", "😀" * 512]
    for number, run_id in enumerate(look_alikes):
        record_of(await client.acquire(run_id, f"w{number}"), 201)

    assert await ids(client) == sorted(look_alikes, reverse=True)
    assert await all_pages(client, 1) == sorted(look_alikes, reverse=True)
    for number, run_id in enumerate(look_alikes):
        assert record_of(await client.get(run_id))["lease"]["owner"] == f"w{number}"
        assert await ids(client, prefix=run_id) == [
            other for other in sorted(look_alikes, reverse=True) if other.startswith(run_id)
        ]
    refused(await client.acquire("😀" * 513), 422, "RUN_VALIDATION_ERROR")
