"""One module a server: from mcp.servers.<alias> import tool. They are made when they are imported."""

import importlib.machinery
import sys

from . import _proxy, _state

__path__ = []  # a package, so that "from mcp.servers.x import y" is looked for


def __getattr__(name):
    server = _state.by_alias(name)
    if server is None:
        raise AttributeError("no MCP server has the alias %r in this run; there are: %s" % (name, _state.aliases()))
    return _module(server)


def __dir__():
    return [s.alias for s in _state.servers.values()]


def _module(server):
    name = "mcp.servers." + server.alias
    if name not in sys.modules:
        sys.modules[name] = _proxy.ServerModule(server)
    return sys.modules[name]


class Finder:
    """Finds mcp.servers.<alias> for import."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith("mcp.servers."):
            return None
        server = _state.by_alias(name[len("mcp.servers."):])
        if server is None:
            raise ModuleNotFoundError(
                "no MCP server has the alias %r in this run; there are: %s" % (name[12:], _state.aliases()), name=name
            )
        spec = importlib.machinery.ModuleSpec(name, Finder)
        spec.server = server
        return spec

    @staticmethod
    def create_module(spec):
        return _proxy.ServerModule(spec.server)

    @staticmethod
    def exec_module(module):
        pass
