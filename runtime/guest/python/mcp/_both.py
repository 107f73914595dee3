"""Functions that work with and without await.

A helper such as save_memory is a plain function. Code that is full of await calls it with one all the same; then it gets
an awaitable, and the event loop goes on meanwhile. What comes next in the caller's bytecode tells the two apart.
"""

import functools
import inspect
import opcode
import sys

_AWAIT = opcode.opmap["GET_AWAITABLE"]
_SKIP = {opcode.opmap.get("CACHE", 0)}


def _awaited(frame):
    """Whether the call that frame is in is the operand of an await."""
    code = frame.f_code
    if not code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return False
    text = code.co_code
    at = frame.f_lasti + 2
    while at < len(text) and text[at] in _SKIP:
        at += 2
    return at < len(text) and text[at] == _AWAIT


def both(later):
    """Makes the coroutine function later (the form for await) and its twin now into one function."""

    def join(now):
        @functools.wraps(now)
        def function(*args, **kwargs):
            if _awaited(sys._getframe(1)):
                return later(*args, **kwargs)
            return now(*args, **kwargs)

        return function

    return join
