"""Functions that earlier runs saved with save_tool: from mcp.tools import name."""

from . import _state, _tools


def __getattr__(name):
    if name == "__all__":
        return list(_state.saved)
    if name.startswith("__") or name not in _state.saved:
        raise AttributeError("no saved tool is named %r; there are: %s" % (name, ", ".join(_state.saved)[:2000] or "none"))
    return _tools.load(name)


def __dir__():
    return list(_state.saved)
