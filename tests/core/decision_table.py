"""Design section 3 as data: every state × every command, and the answer.

The run is `run-1`; the commands are given by worker `a` with token 3 at NOW, without an expected
version (compareAndSet names the stored one). A run that exists has version 5, attempt 2, token 3.
A live lease ends one millisecond after NOW, an expired one exactly at NOW. The tombstone's token
is 7. Create brings a queued record with token 9; compareAndSet brings the stored record with
another checkpoint, or for no run at all the record of `queued`.

An answer is one of
    RUN_…                   refused with that code, nothing written
    =                       converged: the stored record, nothing written
    new STATUS token N      a run is made: version 1, attempt 1
    STATUS [token+1] [attempt+1]
                            a write: that status, the counters named moved, all others kept
    as given                the record that came with the command is written
    gone token N            a tombstone with that token is left
"""

from __future__ import annotations

from typing import Final

STATES: Final = (
    "absent",
    "tombstone",
    "queued",
    "own-live",
    "other-live",
    "own-expired",
    "other-expired",
    "unleased",
    "suspended",
    "completed",
    "failed",
    "cancelled",
)

COMMANDS: Final = (
    "acquire",
    "enqueue",
    "renew",
    "fence-checkpoint",
    "to queued",
    "to suspended",
    "to completed",
    "to failed",
    "to cancelled",
    "cancel",
    "resume",
    "revoke",
    "create",
    "compareAndSet",
    "delete",
    "delete forced",
)

_TABLE = """
command          | states                                              | answer

acquire          | absent                                              | new running token 1
acquire          | tombstone                                           | new running token 8
acquire          | queued unleased                                     | running token+1
acquire          | own-live                                            | running token+1
acquire          | own-expired other-expired                           | running token+1 attempt+1
acquire          | other-live                                          | RUN_LEASE_HELD
acquire          | suspended                                           | RUN_SUSPENDED
acquire          | completed failed cancelled                          | RUN_ALREADY_TERMINAL

enqueue          | absent                                              | new queued token 0
enqueue          | tombstone                                           | new queued token 8
enqueue          | queued suspended unleased                           | =
enqueue          | own-live other-live own-expired other-expired       | =
enqueue          | completed failed cancelled                          | RUN_ALREADY_TERMINAL

renew            | own-live own-expired                                | running
renew            | other-live other-expired unleased                   | RUN_LEASE_LOST
renew            | absent tombstone queued suspended                   | RUN_LEASE_LOST
renew            | completed failed cancelled                          | RUN_LEASE_LOST

fence-checkpoint | own-live own-expired                                | running
fence-checkpoint | other-live other-expired unleased                   | RUN_LEASE_LOST
fence-checkpoint | absent tombstone queued suspended                   | RUN_LEASE_LOST
fence-checkpoint | completed failed cancelled                          | RUN_LEASE_LOST

to queued        | own-live own-expired                                | queued
to queued        | queued                                              | =
to queued        | absent tombstone other-live other-expired unleased  | RUN_LEASE_LOST
to queued        | suspended completed failed cancelled                | RUN_LEASE_LOST

to suspended     | own-live own-expired                                | suspended
to suspended     | suspended                                           | =
to suspended     | absent tombstone other-live other-expired unleased  | RUN_LEASE_LOST
to suspended     | queued completed failed cancelled                   | RUN_LEASE_LOST

to completed     | own-live own-expired                                | completed
to completed     | completed                                           | =
to completed     | absent tombstone other-live other-expired unleased  | RUN_LEASE_LOST
to completed     | queued suspended failed cancelled                   | RUN_LEASE_LOST

to failed        | own-live own-expired                                | failed
to failed        | failed                                              | =
to failed        | absent tombstone other-live other-expired unleased  | RUN_LEASE_LOST
to failed        | queued suspended completed cancelled                | RUN_LEASE_LOST

to cancelled     | own-live own-expired                                | cancelled
to cancelled     | cancelled                                           | =
to cancelled     | absent tombstone other-live other-expired unleased  | RUN_LEASE_LOST
to cancelled     | queued suspended completed failed                   | RUN_LEASE_LOST

cancel           | absent tombstone                                    | RUN_NOT_FOUND
cancel           | queued suspended unleased                           | cancelled token+1
cancel           | own-live other-live own-expired other-expired       | cancelled token+1
cancel           | cancelled                                           | =
cancel           | completed failed                                    | RUN_ALREADY_TERMINAL

resume           | absent tombstone                                    | RUN_NOT_FOUND
resume           | queued                                              | =
resume           | suspended own-expired other-expired unleased        | queued
resume           | own-live other-live                                 | RUN_LEASE_HELD
resume           | completed failed cancelled                          | RUN_ALREADY_TERMINAL

revoke           | absent tombstone                                    | RUN_NOT_FOUND
revoke           | queued                                              | =
revoke           | own-live other-live own-expired other-expired       | queued token+1
revoke           | unleased                                            | queued token+1
revoke           | suspended                                           | RUN_INVALID_TRANSITION
revoke           | completed failed cancelled                          | RUN_ALREADY_TERMINAL

create           | absent tombstone                                    | as given
create           | queued own-live other-live own-expired              | RUN_CONFLICT
create           | other-expired unleased suspended                    | RUN_CONFLICT
create           | completed failed cancelled                          | RUN_CONFLICT

compareAndSet    | absent tombstone                                    | RUN_NOT_FOUND
compareAndSet    | queued own-live other-live own-expired              | as given
compareAndSet    | other-expired unleased suspended                    | as given
compareAndSet    | completed failed cancelled                          | RUN_ALREADY_TERMINAL

delete           | absent tombstone                                    | =
delete           | own-live other-live                                 | RUN_LEASE_HELD
delete           | queued own-expired other-expired unleased           | gone token 3
delete           | suspended completed failed cancelled                | gone token 3

delete forced    | absent tombstone                                    | =
delete forced    | queued own-live other-live own-expired              | gone token 3
delete forced    | other-expired unleased suspended                    | gone token 3
delete forced    | completed failed cancelled                          | gone token 3
"""

ROWS: Final = tuple(
    (command.strip(), state, answer.strip())
    for command, states, answer in (
        line.split("|") for line in _TABLE.splitlines()[2:] if line.strip()
    )
    for state in states.split()
)
"""(command, state, answer), one for each pair."""
