"""Advice on errors whose own text does not say what to do here, where there is no network, no shell and no keyboard."""

import asyncio
import errno
import functools
import os

SHELL = "/bin/sh"
NO_SHELL = "the image of this sandbox has no shell: do it in Python"
CHAIN_MAX = 16  # of the exceptions that led to one another
UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL)


def advice(exc, message, source):
    """The texts for the exception that ended the code of this source; none where it has attributes that fail."""
    try:
        return list(filter(None, (_asyncio(exc, message), _syntax(exc, message, source), _outside(exc, message))))
    except BaseException:
        return []


def _asyncio(exc, message):
    if isinstance(exc, RuntimeError):
        if "event loop is already running" in message:
            return "the code has a top-level await, so it runs inside an event loop already: await the coroutine directly"
        if "no current event loop" in message or "no running event loop" in message:
            return "there is no event loop outside a running one: use top-level await, or asyncio.run(...)"
    if isinstance(exc, TypeError) and ("awaitable is required" in message or "a coroutine was expected" in message or _gathering(exc)):
        return (
            "asyncio was given a result, not a coroutine: a call of a function that is not async is over when it returns, "
            "also one of save_memory and its like without `await` right in front of it; asyncio.to_thread(function, ...) "
            "makes such a call awaitable"
        )
    if isinstance(exc, (TypeError, AttributeError)) and "'coroutine' object" in message:
        return "a call that returns a coroutine was used without await: write `await` in front of it"


def _gathering(exc):
    """Whether asyncio.gather itself failed: before it looks whether it can await something, it takes it as a dict's key."""
    tb = exc.__traceback__
    while tb.tb_next is not None:
        tb = tb.tb_next
    return tb.tb_frame.f_code is asyncio.gather.__code__


def _syntax(exc, message, source):
    if not isinstance(exc, SyntaxError):
        return None
    if source.lstrip().startswith("```"):
        return "the code begins with a Markdown fence: pass what is between the fences"
    if "'return' outside function" in message:
        return "the value of the last expression is given back: end with it, without return"


def _outside(exc, message):
    if isinstance(exc, EOFError) and message == "EOF when reading a line":
        return "the code gets no input: write what it would ask for into the code"
    if isinstance(exc, ModuleNotFoundError) and isinstance(exc.name, str) and exc.name:
        return "%s is not in the image of this sandbox, which has no network to install it from" % exc.name.partition(".")[0]
    if isinstance(exc, NameError) and isinstance(exc.name, str) and exc.name.startswith("mcp_"):
        return (
            "%s is no server that can be called: `from mcp import runtime; print(runtime.capability_summary())` says which can, "
            "and why others cannot" % exc.name
        )
    if isinstance(exc, FileNotFoundError) and exc.filename == SHELL and not os.path.exists(SHELL):
        return NO_SHELL
    if any(_unreachable(e) for e in _led_to(exc)):
        return "the sandbox has no network; what is beyond it is reached by the tools that the host offers, if it offers any"


def _unreachable(exc):
    return isinstance(exc, OSError) and (type(exc).__name__ == "gaierror" or exc.errno in UNREACHABLE)


def _led_to(exc):
    """Gives an exception, what it came from, and so on."""
    for _ in range(CHAIN_MAX):
        if exc is None:
            return
        yield exc
        exc = exc.__context__ if exc.__cause__ is None else exc.__cause__  # no `or`: it asks the code's own __bool__


def told_of_no_shell(system, tell):
    """os.system that tells what its result alone does not say."""

    @functools.wraps(system)
    def told(command):
        status = system(command)
        if status == 127 << 8 and not os.path.exists(SHELL):
            tell(NO_SHELL)
        return status

    return told
