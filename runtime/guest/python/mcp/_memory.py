"""Memories: JSON values under a key, kept by the host for later runs. Each function works with and without await."""

import inspect

from . import _channel, errors
from ._both import both

_TRIES = 50  # of update_memory; each lost one means that somebody else's update succeeded
_MISSING = object()


def _ask(verb, **args):
    return _channel.link().call(verb, args)


async def _ask_later(verb, **args):
    return await _channel.link().call_async(verb, args)


def _saving(key, value, metadata):
    return dict(key=_key(key), value=value, **({} if metadata is None else {"metadata": metadata}))


def _key(key):
    if not isinstance(key, str):
        raise errors.ToolArgumentError("a memory's key is a str, not a %s" % type(key).__name__)
    try:
        key.encode()
    except UnicodeEncodeError:  # the host would take one lone surrogate for another
        raise errors.ToolArgumentError("a memory's key is text, and %r holds half a character" % key) from None
    return key


async def _save_later(key, value, *, metadata=None):
    return await _ask_later("memory.save", **_saving(key, value, metadata))


@both(_save_later)
def save_memory(key, value, *, metadata=None):
    """Keeps a JSON value under key, in place of what was there. Returns what is known of it (key, version, size, …)."""
    return _ask("memory.save", **_saving(key, value, metadata))


async def _load_later(key, default=None):
    try:
        return (await _ask_later("memory.load", key=_key(key)))["value"]
    except errors.KeyError:
        return default


@both(_load_later)
def load_memory(key, default=None):
    """The value under key, default when there is none."""
    try:
        return _ask("memory.load", key=_key(key))["value"]
    except errors.KeyError:
        return default


async def _update_later(key, function, default=None, *, metadata=None):
    for _ in range(_TRIES):
        try:
            found = await _ask_later("memory.load", key=_key(key))
        except errors.KeyError:
            found = {"value": default, "version": 0}
        value = function(found["value"])
        if inspect.isawaitable(value):
            value = await value
        try:
            await _ask_later("memory.save", version=found["version"], **_saving(key, value, metadata))
            return value
        except errors.VersionConflict:
            continue
    raise errors.VersionConflict("memory %r was changed by others %d times in a row" % (key, _TRIES))


@both(_update_later)
def update_memory(key, function, default=None, *, metadata=None):
    """Replaces the value under key by function(value); default stands in where there is none. Where somebody else has
    changed it meanwhile, the function is called again with the newer value, so no update is lost. Returns the new value."""
    for _ in range(_TRIES):
        try:
            found = _ask("memory.load", key=_key(key))
        except errors.KeyError:
            found = {"value": default, "version": 0}
        value = function(found["value"])
        if inspect.iscoroutine(value):
            value.close()
            raise errors.ToolArgumentError("with an async function, write `await update_memory(...)`")
        try:
            _ask("memory.save", version=found["version"], **_saving(key, value, metadata))
            return value
        except errors.VersionConflict:
            continue
    raise errors.VersionConflict("memory %r was changed by others %d times in a row" % (key, _TRIES))


async def _delete_later(key):
    return bool(await _ask_later("memory.delete", key=_key(key)))


@both(_delete_later)
def delete_memory(key):
    """Removes a memory; tells whether there was one."""
    return bool(_ask("memory.delete", key=_key(key)))


async def _list_later():
    return await _ask_later("memory.list")


@both(_list_later)
def list_memories():
    """What is known of each memory: a list of {key, version, …}."""
    return _ask("memory.list")


async def _info_later(key):
    return await _ask_later("memory.info", key=_key(key))


@both(_info_later)
def get_memory_info(key):
    """What is known of a memory without its value; None when there is none."""
    return _ask("memory.info", key=_key(key))


async def _exists_later(key):
    return await _info_later(key) is not None


@both(_exists_later)
def memory_exists(key):
    """Whether there is a memory under key."""
    return _ask("memory.info", key=_key(key)) is not None
