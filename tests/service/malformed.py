"""Requests that must be refused, and refused alike whichever way they come in."""

from __future__ import annotations

import json
from typing import Final

from tests.service.asgi import JSON

VERBS: Final = (
    "/v1/runs/run-1/acquire",
    "/v1/runs/run-1/renew",
    "/v1/runs/run-1/fence-checkpoint",
    "/v1/runs/run-1/transition",
    "/v1/leases/renew",
)

BAD_COUNTERS: Final = (
    "true",
    '"1"',
    "1.5",
    "1e400",
    "-1",
    "null",
    "[]",
    "{}",
    str(2**53),
    str(2**63),
    str(10**100),
    "1" * 4_000,
)
BAD_TTLS: Final = (*BAD_COUNTERS, "0", "99", "86400001", "60000.5")
CONTROL_CHARACTERS: Final = ("\x00", "\x01", "\x1f", "\x7f", "\x80", "\x9f", "\ud800", "\udfff")
BAD_OWNERS: Final = (
    '""',
    '" "',
    '"\\u2003\\u00a0"',
    "1",
    "null",
    "true",
    "[]",
    json.dumps("x" * 256),
    json.dumps("x" * 1_000_000),
    *(json.dumps(f"a{character}b") for character in (*CONTROL_CHARACTERS, "\n", "\t")),
)
UNREADABLE: Final = (
    b" ",
    b"{",
    b"{}}",
    b"{'owner':'a'}",
    b'{"owner":"a",}',
    b'{"owner":"a"} x',
    b"\xff",
    b"\xef\xbb\xbf{}",
    b'{"owner":"\xed\xa0\x80"}',
    '{"owner":"a"}'.encode("utf-16"),
    b'{"owner":"a\nb"}',
    b'{"owner":"a","leaseTtlMs":NaN}',
    b'{"owner":"a","leaseTtlMs":Infinity}',
    b'{"owner":"a","leaseTtlMs":-Infinity}',
    b'{"owner":"a","owner":"b"}',
    b'{"owner":"a","labels":{"k":"1","k":"2"}}',
    b'{"owner":"a","leaseTtlMs":' + b"1" * 5_000 + b"}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"owner":"a","x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
)
NO_OBJECTS: Final = (b"[]", b"null", b"true", b"1", b'"x"', b"[1,2]", b"NaN", b"1e400", b"[[]]")


def _bodies() -> list[bytes]:
    grant = '"owner":"a","fencingToken":1'
    ref = '"checkpointRef":{"key":"k","snapshotVersion":1,"savedAt":"2026-09-01T00:00:00Z"}'
    texts = ["{}", '{"owner":"a","typo":1}', '{"Owner":"a"}', '{"owner":"a","leaseTTLMs":1000}']
    texts += [f'{{{grant},"leaseTtlMs":{ttl}}}' for ttl in BAD_TTLS]
    texts += [f'{{"owner":"a","leaseTtlMs":{ttl}}}' for ttl in BAD_TTLS]
    texts += [f'{{{grant},{ref},"leaseTtlMs":{ttl}}}' for ttl in BAD_TTLS]
    texts += [f'{{"owner":{owner},"fencingToken":1}}' for owner in BAD_OWNERS]
    texts += [f'{{"owner":{owner}}}' for owner in BAD_OWNERS]
    texts += [f'{{"owner":"a","fencingToken":{token}}}' for token in BAD_COUNTERS]
    texts += [f'{{"owner":"a","fencingToken":{token},"to":"completed"}}' for token in BAD_COUNTERS]
    texts += [f'{{{grant},"to":{to}}}' for to in ('"running"', '"done"', "null", "1", '""')]
    texts += [
        f'{{{grant},"to":"queued","outcome":{{"code":"ok"}}}}',
        f'{{{grant},"to":"completed","pendingApprovalIds":["x"]}}',
        f'{{{grant},"to":"completed","outcome":null}}',
        f'{{{grant},"to":"completed","outcome":{{}}}}',
        f'{{{grant},"to":"completed","outcome":{{"code":""}}}}',
        f'{{{grant},"to":"completed","outcome":{{"code":"ok","message":"\\u0000"}}}}',
        f'{{{grant},"to":"completed","outcome":{{"code":"ok","extra":1}}}}',
        f'{{{grant},"to":"suspended","pendingApprovalIds":"x"}}',
        f'{{{grant},"to":"suspended","pendingApprovalIds":[1]}}',
        f'{{{grant},"to":"suspended","pendingApprovalIds":[""]}}',
        f'{{{grant},"to":"suspended","pendingApprovalIds":{json.dumps(["x"] * 257)}}}',
        f'{{{grant},"to":"suspended","pendingApprovalIds":["\\ud800"]}}',
    ]
    refs = (
        "null",
        "{}",
        '{"key":"","snapshotVersion":1,"savedAt":"2026-09-01T00:00:00Z"}',
        '{"key":"\\u0000","snapshotVersion":1,"savedAt":"2026-09-01T00:00:00Z"}',
        '{"key":"k","snapshotVersion":true,"savedAt":"2026-09-01T00:00:00Z"}',
        '{"key":"k","snapshotVersion":-1,"savedAt":"2026-09-01T00:00:00Z"}',
        '{"key":"k","snapshotVersion":1,"savedAt":"yesterday"}',
        '{"key":"k","snapshotVersion":1,"savedAt":"2026-09-01T00:00:00"}',
        '{"key":"k","snapshotVersion":1,"savedAt":"2026-13-01T00:00:00Z"}',
        '{"key":"k","snapshotVersion":1,"savedAt":"0001-01-01T00:00:00+23:00"}',
        '{"key":"k","snapshotVersion":1,"savedAt":1}',
        '{"key":"k","snapshotVersion":1,"savedAt":"2026-09-01T00:00:00Z","x":1}',
        json.dumps({"key": "k" * 1025, "snapshotVersion": 1, "savedAt": "2026-09-01T00:00:00Z"}),
    )
    texts += [f'{{{grant},"checkpointRef":{ref}}}' for ref in refs]
    labels = (
        "null",
        "[]",
        '{"":"x"}',
        '{"k":1}',
        '{"k":null}',
        '{"\\u0000":"x"}',
        '{"k":"\\u0000"}',
        '{"\\ud800":"x"}',
        '{"k":"\\ud800"}',
        json.dumps({"k" * 64: "x"}),
        json.dumps({"k": "x" * 256}),
        json.dumps({str(number): "" for number in range(17)}),
    )
    texts += [f'{{"owner":"a","labels":{value}}}' for value in labels]
    texts += [f'{{"owner":"a","maxAttempts":{value}}}' for value in (*BAD_COUNTERS, "0", "10001")]
    texts += ['{"owner":"a","\\ud800":1}', '{"owner":"a","body":1}', '{"owner":"a","":1}']
    texts += [json.dumps({"owner": "a", "x" * 100_000: 1})]
    texts += [json.dumps({"owner": "a", **{f"field{number}": 1 for number in range(1_000)}})]
    batches = (
        "null",
        "{}",
        "[]",
        '"x"',
        json.dumps([{"runId": "run-1", "fencingToken": 1}] * 1001),
        "[" + ",".join(["0"] * 100_000) + "]",
    )
    texts += [f'{{"owner":"a","leases":{value}}}' for value in batches]
    texts += ['{"leases":[{"runId":"run-1","fencingToken":1}]}']
    texts += ['{"owner":"a","leases":[{"runId":"run-1","fencingToken":1}],"typo":1}']
    return [b"", *UNREADABLE, *NO_OBJECTS, *(text.encode() for text in texts)]


BODIES: Final = tuple(_bodies())
"""None of them is well-formed for any of VERBS."""

_CONDITIONS: Final = (
    b"",
    b"1",
    b'"1"',
    b'W/"1"',
    b"*",
    b"**",
    b'"*"',
    b'"1", "2"',
    b'"1',
    b'1"',
    b"-1",
    b"1.0",
    b'""',
    b"abc",
    b"0x1",
    b"9007199254740991",
    b"9007199254740992",
    b"99999999999999999999",
    b"\xb2",
    b" 1 ",
    b"\xd9\xa1",
    b"\xff\x00",
)
_KEYS: Final = (
    b"",
    b'""',
    b'"',
    b'"a',
    b'a"',
    b'"a" x',
    b'"a\\"b"',
    b'"a\\x"',
    b"bare key",
    b"\xc3\xa9",
    b"\xe9",
    b"\x80",
    b"a\tb",
    b"x" * 256,
    b'"' + b"x" * 255 + b'"',
    b'"' + b"x" * 256 + b'"',
)
_MEDIA_TYPES: Final = (
    b"application/json",
    b"application/json; charset=utf-8",
    b"APPLICATION/JSON",
    b"application/json;",
    b" application/json ",
    b"application/merge-patch+json",
    b"application/problem+json",
    b"application/x/y+json",
    b"application/+json",
    b"application/json/x",
    b"application/jsonx",
    b"text/json",
    b"text/plain",
    b"application/x-www-form-urlencoded",
    b"multipart/form-data; boundary=x",
    b"",
    b"json",
    b"\xff",
)
HEADERS: Final = (
    *([JSON, (b"if-match", value)] for value in _CONDITIONS),
    *([JSON, (b"if-none-match", value)] for value in _CONDITIONS),
    *([JSON, (b"idempotency-key", value)] for value in _KEYS),
    *([(b"content-type", value)] for value in _MEDIA_TYPES),
    [],
    [JSON, (b"content-type", b"text/plain")],
    [(b"content-type", b"text/plain"), JSON],
    [JSON, (b"if-match", b'"1"'), (b"if-match", b'"2"')],
    [JSON, (b"if-match", b'"2"'), (b"if-match", b'"1"')],
    [JSON, (b"idempotency-key", b"a"), (b"idempotency-key", b"b")],
    [JSON, (b"If-Match", b'"99"')],
    [JSON, (b"content-encoding", b"gzip")],
    [JSON, (b"expect", b"100-continue")],
    [JSON, (b"accept", b"text/html")],
    [JSON, (b"x-request-id", b"a" * 129)],
    [JSON, (b"x-http-method-override", b"DELETE")],
    [JSON, (b"cookie", b"a=b")],
)

TARGETS: Final = (
    "/v1/runs/run-1/acquire",
    "/v1/runs/run-1/acquire?",
    "/v1/runs/run-1/acquire?x=1",
    "/v1/runs/run-1/acquire/",
    "/v1/runs/run-1/acquire%0A",
    "/v1/runs/run-1%0A/acquire",
    "/v1/runs/run-1%0A",
    "/v1/runs/run-1/cancel%0A",
    "/v1/runs/a%0Ab/acquire",
    "/v1/runs/%00/acquire",
    "/v1/runs/a%0D/acquire",
    "/v1/runs/%C2%85/acquire",
    "/v1/runs/%E2%80%A8/acquire",
    "/v1/runs/%20/acquire",
    "/v1/runs/%20x/acquire",
    "/v1/runs/x%C2%A0/acquire",
    "/v1/runs//acquire",
    "/v1/runs/acquire",
    "/v1/runs/",
    "/v1/runs",
    "/v1/runs/./acquire",
    "/v1/runs/../acquire",
    "/v1/runs/%2e%2e/acquire",
    "/v1/runs/%2E/acquire",
    "/v1/runs/a//b/acquire",
    "/v1/runs/a/../b/acquire",
    "/v1/runs/a%2F%2Fb/acquire",
    "/v1/runs/a%2F..%2Fb/acquire",
    "/v1/runs/a/b/acquire",
    "/v1/runs/a%2Fb/acquire",
    "/v1/runs/a%252Fb/acquire",
    "/v1/runs/x/acquire/acquire",
    "/v1/runs/x%2Facquire",
    "/v1/runs/%ff/acquire",
    "/v1/runs/%ed%a0%80/acquire",
    "/v1/runs/%c3%bc/acquire",
    "/v1/runs/100%25/acquire",
    "/v1/runs/100%/acquire",
    "/v1/runs/%zz/acquire",
    "/v1/runs/%2/acquire",
    "/v1/runs/a+b/acquire",
    "/v1/runs/a%3Fb%23c/acquire",
    "/v1/runs/" + "x" * 512 + "/acquire",
    "/v1/runs/" + "x" * 513 + "/acquire",
    "/v1/runs/" + "%F0%9F%98%80" * 512 + "/acquire",
    "/v1/runs/" + "x" * 8_192 + "/acquire",
    "/v1/runs/run-1/ACQUIRE",
    "/v1/runs/run-1/%61cquire",
    "/v1/runs/run-1/unknown",
    "/v1/leases/renew",
    "/v1/leases/renew/",
    "/v1/leases/renew%0A",
    "/v1/leases/%72enew",
    "/V1/runs/run-1/acquire",
    "//v1/runs/run-1/acquire",
    "/",
    "/v1",
    "/healthz",
    "/healthz%0A",
)
