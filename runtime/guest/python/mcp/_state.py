"""What the run frame told of this run: its servers and saved tools."""

from . import _proxy

servers = _proxy.Servers()  # name -> Server, in the host's order
descriptions = {}  # name -> description
saved = []  # names of saved tools


def by_alias(alias):
    for server in servers.values():
        if server.alias == alias:
            return server
    return None


def aliases():
    return ", ".join(sorted(s.alias for s in servers.values()))[:2000] or "none"


def add(name, alias, description=""):
    """Makes one server known; returns its proxy."""
    server = servers[name] = _proxy.Server(name, alias, description)
    descriptions[name] = description
    return server
