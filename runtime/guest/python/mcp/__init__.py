"""The MCP servers that this code can call, and what lasts from one run to the next.

    await mcp_<alias>.tool(argument=1)        a tool, by the names that runtime.list_tools tells
    from mcp import runtime                   finding servers and tools, calling them by name
    from mcp.servers.<alias> import tool      the same tool, imported
    from mcp.tools import name                a function that an earlier run has saved
"""

import builtins

from . import errors
from .errors import *  # noqa: F401,F403

# Not those with a builtin namesake: a star import must not change what `except KeyError` means.
__all__ = ["runtime", "servers", "tools", *(n for n in errors.__all__ if not hasattr(builtins, n))]


def __getattr__(name):
    """Submodules appear on first use: importing them here would make a cycle."""
    if name in ("runtime", "servers", "tools"):
        import importlib

        return importlib.import_module("mcp." + name)
    raise AttributeError("module 'mcp' has no attribute %r" % name)
