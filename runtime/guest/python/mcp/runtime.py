"""Helpers to find and call the tools of MCP servers, and to keep things for later runs.

Names that end in _sync wait for their answer; of the others, call_tool, list_servers, list_tools, query_tool_docs and
search_tool_docs must be awaited. All the rest work either way.
"""

from . import _channel, _results, _state, errors
from ._both import both
from ._memory import (  # noqa: F401
    delete_memory,
    get_memory_info,
    list_memories,
    load_memory,
    memory_exists,
    save_memory,
    update_memory,
)
from ._save import delete_tool, list_saved_tools, save_tool  # noqa: F401
from .errors import MCPError  # noqa: F401


def _ask(verb, args):
    return _channel.link().call(verb, args, _results.parse)


async def _ask_later(verb, args):
    return await _channel.link().call_async(verb, args, _results.parse)


def _name(server):
    """A server may be given by name, by alias, or as its proxy."""
    return getattr(server, "name", server)


# Servers ----------------------------------------------------------------------------------------------------------


async def _discovered_later(detailed=False):
    return discovered_servers_sync(detailed)


def discovered_servers_sync(detailed=False):
    """The servers of this run, without connecting to any: a tuple of names, or of {name, description} if detailed."""
    if detailed:
        return tuple(_results.Record(name=n, description=d) for n, d in _state.descriptions.items())
    return tuple(_state.servers)


discovered_servers = both(_discovered_later)(discovered_servers_sync)


async def list_servers():
    """Names of the servers that can be called, asked of the host; capability_summary() says why others cannot."""
    return tuple(s["name"] for s in await _ask_later("servers.list", {}) if s["state"] != "off")


def list_servers_sync():
    """Names of the servers of this run."""
    return tuple(_state.servers)


async def _describe_later(name):
    info = await _ask_later("servers.describe", {"server": _name(name)})
    docs = await _ask_later("tools.docs", {"server": _name(name), "detail": "full"})
    return _description(info, docs)


def describe_server_sync(name):
    """What is known of a server: name, alias, state, error, instructions, cwd, and its tools with their input schemas.
    Connects to it."""
    args = {"server": _name(name)}
    return _description(_ask("servers.describe", args), _ask("tools.docs", dict(args, detail="full")))


describe_server = both(_describe_later)(describe_server_sync)


def _description(info, docs):
    info["tools"] = [_tool(doc) for doc in docs]
    return info


def _tool(doc):
    tool = _results.Record(name=doc.get("tool"), alias=doc.get("toolAlias"), description=doc.get("description") or "")
    tool["input_schema"] = doc.get("inputSchema")
    if doc.get("signature"):
        tool["signature"] = doc["signature"]
    return tool


class _Loaded(_results.Record):
    """A server of this run. Its tools are asked for when they are first read: that connects to it."""

    __slots__ = ()

    def __missing__(self, key):
        if key != "tools":
            raise KeyError(key)
        self.update(describe_server_sync(self["name"]))
        return dict.__getitem__(self, "tools")

    def get(self, key, default=None):
        return self[key] if key == "tools" else dict.get(self, key, default)


async def _loaded_later():
    return list_loaded_server_metadata_sync()


def list_loaded_server_metadata_sync():
    """The servers of this run: a tuple of {name, alias, description, tools}; tools are fetched when read."""
    return tuple(
        _Loaded(name=s.name, alias=s.alias, description=_state.descriptions[s.name]) for s in _state.servers.values()
    )


list_loaded_server_metadata = both(_loaded_later)(list_loaded_server_metadata_sync)


# Tools ------------------------------------------------------------------------------------------------------------


async def call_tool(server, tool, arguments=None, *, raw=False, timeout=None):
    """Calls a tool by its exact name or alias; arguments are a dict. raw=True gives the whole MCP result."""
    return await _state.servers[_name(server)].call_tool(tool, arguments, raw=raw, timeout=timeout)


def call_tool_sync(server, tool, arguments=None, *, raw=False, timeout=None):
    """call_tool for code that cannot await, in any thread."""
    return _state.servers[_name(server)][tool].sync(arguments or {}, raw=raw, timeout=timeout)


async def list_tools(server):
    """The tools of a server: a list of {name, alias, description}."""
    return await _ask_later("tools.list", {"server": _name(server)})


def list_tools_sync(server=None):
    """The tools of a server: a tuple of {name, alias, description}."""
    if server is None:
        raise MCPError("list_tools_sync(server) needs the name of a server")
    return tuple(_ask("tools.list", {"server": _name(server)}))


def _docs_args(server, tool, detail):
    if tool is not None and not isinstance(tool, str):
        raise errors.ToolArgumentError("tool must be a str, not a %s" % type(tool).__name__)
    args = {"server": _name(server), "detail": _detail(detail)}
    if tool is not None:
        args["tool"] = tool
    return args


def _detail(value):
    return "full" if str(value).lower() == "full" else "summary"


async def query_tool_docs(server, tool=None, detail="summary"):
    """Documentation of a server's tools, or of the one named: then its dict alone. detail="full" adds schemas and a
    typed Python signature."""
    docs = await _ask_later("tools.docs", _docs_args(server, tool, detail))
    return docs[0] if tool is not None and len(docs) == 1 else docs


def query_tool_docs_sync(server, tool=None, detail="summary"):
    """Documentation of a server's tools: always a list."""
    return _ask("tools.docs", _docs_args(server, tool, detail))


def _search_args(query, limit, detail):
    return {"query": str(query), "limit": 5 if limit is None else int(limit), "detail": _detail(detail)}


async def search_tool_docs(query, limit=5, detail="summary"):
    """Tools of any server that fit the words of query, best first."""
    return await _ask_later("tools.search", _search_args(query, limit, detail))


def search_tool_docs_sync(query, limit=5, detail="summary"):
    """search_tool_docs for code that cannot await."""
    return _ask("tools.search", _search_args(query, limit, detail))


async def _summary_later():
    return await _ask_later("capability", {})


def capability_summary_sync():
    """A short manual of all this."""
    return _ask("capability", {})


capability_summary = both(_summary_later)(capability_summary_sync)


# Finding and adding servers ---------------------------------------------------------------------------------------


async def _find_later(query, limit=10):
    return await _ask_later("servers.find", {"query": str(query), "limit": int(limit)})


def find_servers_sync(query, limit=10):
    """Servers that could be added: a list of {name, description, source, installed}."""
    return _ask("servers.find", {"query": str(query), "limit": int(limit)})


find_servers = both(_find_later)(find_servers_sync)


async def _add_later(name, persist=False):
    return _added(await _ask_later("servers.add", {"name": name, "persist": bool(persist)}))


def add_server_sync(name, persist=False):
    """Adds a server that find_servers told, where the operator allows it; returns its proxy. It is also in mcp_servers,
    and mcp_<alias> is there from the next run on."""
    return _added(_ask("servers.add", {"name": name, "persist": bool(persist)}))


add_server = both(_add_later)(add_server_sync)


def _added(info):
    import sys

    server = _state.add(info["name"], info["alias"])
    sys.modules["__main__"].__dict__.setdefault("mcp_" + server.alias, server)
    return server


__all__ = sorted(n for n in globals() if not n.startswith("_") and n not in ("both", "errors"))
