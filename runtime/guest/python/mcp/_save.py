"""Saving functions for later runs."""

from . import _channel, _source, _state, errors
from ._both import both


def _saving(function, name, description):
    name, code, doc = _source.of(function, name)
    if not description:
        description = (doc or "").strip().split("\n")[0]
    return {"name": name, "code": code, "description": description}


def _saved(name):
    if name not in _state.saved:
        _state.saved.append(name)
    return "Saved tool %s. Later runs have it as %s(...) and by `from mcp.tools import %s`." % (name, name, name)


async def _save_later(function, name=None, description=None):
    args = _saving(function, name, description)
    await _channel.link().call_async("saved.save", args)
    return _saved(args["name"])


@both(_save_later)
def save_tool(function, name=None, description=None):
    """Keeps a function (or class) of this run for later ones: its source, with the imports, constants and other functions
    of this code that it uses. A str of source is taken as it is, under the given name."""
    args = _saving(function, name, description)
    _channel.link().call("saved.save", args)
    return _saved(args["name"])


async def _delete_later(name):
    return _deleted(name, await _channel.link().call_async("saved.delete", {"name": _named(name)}))


@both(_delete_later)
def delete_tool(name):
    """Removes a saved tool; tells whether there was one."""
    return _deleted(name, _channel.link().call("saved.delete", {"name": _named(name)}))


def _deleted(name, was):
    if name in _state.saved:
        _state.saved.remove(name)
    return bool(was)


def _named(name):
    if not isinstance(name, str):
        raise errors.ToolArgumentError("a saved tool is named by a str, not a %s" % type(name).__name__)
    return name


async def _list_later():
    return await _channel.link().call_async("saved.list", {})


@both(_list_later)
def list_saved_tools():
    """The saved tools: a list of {name, description}."""
    return _channel.link().call("saved.list", {})
