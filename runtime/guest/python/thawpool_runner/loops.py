"""asyncio.run inside code that already runs in a loop because it has a top-level await.

The outer loop is set aside while the inner one runs, on the same thread: it stands still until the inner one has ended,
and neither is entered twice. Code without a top-level await has the unchanged asyncio.
"""

import asyncio
import contextlib
import functools
from asyncio import events, tasks


@contextlib.contextmanager
def nested():
    """While this is active, asyncio.run works where a loop is running."""
    plain = asyncio.run

    @functools.wraps(plain)
    def run(main, **options):
        loop = events._get_running_loop()
        if loop is None:
            return plain(main, **options)
        with _aside(loop):
            return plain(main, **options)

    asyncio.run = asyncio.runners.run = run
    try:
        yield
    finally:
        asyncio.run = asyncio.runners.run = plain


@contextlib.contextmanager
def _aside(loop):
    """Makes this thread look as if loop were not running in it."""
    task = tasks.current_task(loop)
    if task is not None:
        tasks._leave_task(loop, task)
    events._set_running_loop(None)
    try:
        yield
    finally:
        events.set_event_loop(loop)
        events._set_running_loop(loop)
        if task is not None:
            tasks._enter_task(loop, task)
