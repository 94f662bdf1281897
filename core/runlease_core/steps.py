"""Logic once, I/O twice: a generator yields what it asks of a store, two shells send it there.

Each step is a function of the target, as `methodcaller("get", run_id)` makes one. The
synchronous shell calls it; the asynchronous one also awaits an answer that is awaitable, so that
it drives a quick synchronous store too. What the target raises is raised at the `yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Step: TypeAlias = Callable[[Any], Any]
Steps: TypeAlias = Generator[Step, Any, T]


def run_steps(steps: Steps[T], target: object) -> T:
    """Send every step to the target and return what the logic concludes."""
    try:
        step = next(steps)
        while True:
            try:
                answer = step(target)
            except Exception as error:  # noqa: BLE001 (the logic decides what it means)
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # StopIteration is not generic
    finally:
        steps.close()


async def run_steps_async(steps: Steps[T], target: object) -> T:
    """The same over a target whose answers may be awaitable."""
    try:
        step = next(steps)
        while True:
            try:
                answer = step(target)
                if isawaitable(answer):
                    answer = await answer
            except Exception as error:  # noqa: BLE001 (the logic decides what it means)
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # StopIteration is not generic
    finally:
        steps.close()
