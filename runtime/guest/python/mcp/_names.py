"""The names that code finds without importing anything."""

import sys

import mcp

from . import _channel, _known, _state, _tools, runtime, servers, tools


def namespace(link, run):
    """Takes in what the run frame tells and returns the code's first globals."""
    _channel.current = link
    _state.servers.clear()
    _state.descriptions.clear()
    for s in run.get("servers") or ():
        _state.add(s["name"], s["alias"], s.get("description", ""))
    _state.saved[:] = run.get("saved") or ()
    if servers.Finder not in sys.meta_path:
        sys.meta_path.insert(0, servers.Finder)
    sys.modules["user_tools"] = tools
    return names()


def names():
    found = {name: _tools.Saved(name) for name in _state.saved}
    found.update({"mcp_" + s.alias: s for s in _state.servers.values()})
    found.update({name: getattr(runtime, name) for name in _known.HELPERS})
    found["mcp"] = mcp
    found["mcp_servers"] = _state.servers
    found["LOADED_MCP_SERVERS"] = tuple(_state.servers)
    return found
