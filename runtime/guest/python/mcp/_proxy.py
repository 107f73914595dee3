"""The objects behind mcp_<alias>: a server's tools as attributes, each an async function.

Looking an attribute up never asks anybody, whatever its name: whether there is such a tool shows when it is called.
"""

import asyncio
import types

from . import _channel, _results, errors

_DOC = "Could not get the documentation of this tool: %s"


class Server:
    """One MCP server. Tools are attributes (await mcp_x.tool(a=1)) or, by exact name, items (mcp_x["tool"])."""

    def __init__(self, name, alias, description=""):
        self.__dict__.update(_name=name, _alias=alias, _description=description, _tools={})

    @property
    def name(self):
        return self._name

    @property
    def alias(self):
        return self._alias

    async def list_tools(self):
        """The server's tools: a list of {name, alias, description}."""
        return await _channel.link().call_async("tools.list", {"server": self._name}, _results.parse)

    def call_tool(self, tool, arguments=None, *, raw=False, timeout=None):
        """Calls a tool by its exact name or alias."""
        return Tool(self, tool)(arguments or {}, raw=raw, timeout=timeout)

    async def query_tool_docs(self, tool=None, detail="summary"):
        """Documentation of one tool or of all."""
        from . import runtime

        return await runtime.query_tool_docs(self._name, tool, detail)

    async def describe(self):
        """What is known of the server."""
        from . import runtime

        return await runtime.describe_server(self._name)

    def __getattr__(self, name):
        if name.startswith("_"):  # no tool has such an alias; copy, pickle, repr and many others look for these
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name):
        if not isinstance(name, str):
            raise TypeError("a tool's name is a str, not a %s" % type(name).__name__)
        tool = self._tools.get(name)
        if tool is None:
            tool = self._tools[name] = Tool(self, name)
        return tool

    def __setattr__(self, name, value):
        raise AttributeError("tools cannot be set")

    def __repr__(self):
        return "<MCP server %s: await mcp_%s.<tool>(...); await mcp_%s.list_tools() names the tools>" % (
            self._name, self._alias, self._alias)  # fmt: skip

    def __reduce__(self):
        return Server, (self._name, self._alias, self._description)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


class Tool:
    """One tool of a server. Calling it gives a coroutine; sync() waits for the result instead."""

    def __init__(self, server, name):
        self._server = server
        self._name = name
        if name.isidentifier():
            self.__name__ = self.__qualname__ = "mcp_%s.%s" % (server.alias, name)
        else:
            self.__name__ = self.__qualname__ = "mcp_%s[%r]" % (server.alias, name)
        self.__module__ = "mcp.servers." + server.alias

    def __call__(self, /, *args, **kwargs):
        """Arguments by keyword, or one dict with all of them; what is not given is not sent. raw=True asks for the whole
        MCP result, timeout=seconds limits the wait, unless the tool has arguments of these names."""
        coroutine = self._run(*_arguments(self, args, kwargs))
        coroutine.__qualname__ = self.__qualname__  # what "was never awaited" tells
        return coroutine

    def sync(self, /, *args, **kwargs):
        """The same for code that cannot await: waits on this thread, while its event loop, if any, stands still."""
        arguments, options, doubtful = _arguments(self, args, kwargs)
        if doubtful:
            self._settle(arguments, options, doubtful, _channel.link().call("tools.docs", self._docs(), _results.parse))
        limit = options.get("timeout")
        try:
            return self._result(_channel.link().call("tools.call", self._call(arguments), _results.parse, limit), options)
        except asyncio.TimeoutError as e:
            raise self._late(e, limit) from None

    async def _run(self, arguments, options, doubtful):
        link = _channel.link()
        if doubtful:
            self._settle(arguments, options, doubtful, await link.call_async("tools.docs", self._docs(), _results.parse))
        call = link.call_async("tools.call", self._call(arguments), _results.parse)
        limit = options.get("timeout")
        if limit is None:
            return self._result(await call, options)
        try:
            return self._result(await asyncio.wait_for(call, limit), options)
        except asyncio.TimeoutError as e:
            raise self._late(e, limit) from None

    def _late(self, exc, limit):
        """The error to raise for a TimeoutError: one that the host told is that already."""
        if isinstance(exc, errors.MCPError):
            return exc
        return errors.TimeoutError("%s did not answer within %s s" % (self.__qualname__, limit))

    def _call(self, arguments):
        return {"server": self._server.name, "tool": self._name, "args": arguments}

    def _docs(self):
        return {"server": self._server.name, "tool": self._name, "detail": "full"}

    @staticmethod
    def _result(result, options):
        return result if options.get("raw") else _results.unwrap(result)

    @staticmethod
    def _settle(arguments, options, doubtful, docs):
        """Decides by the tool's schema whether raw and timeout were meant for the tool or for the call."""
        schema = (docs[0].get("inputSchema") if docs else None) or {}
        known = schema.get("properties") or {}
        for name in doubtful:
            if name not in known:
                options[name] = arguments.pop(name)

    def __repr__(self):
        return "<MCP tool %s of %s: await %s(...); help() shows its arguments>" % (
            self._name, self._server.name, self.__qualname__)  # fmt: skip

    def __reduce__(self):
        return Tool, (self._server, self._name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def __doc__(self):
        """The typed signature and description, asked of the host when help() or a reader wants it."""
        try:
            docs = _channel.link().call("tools.docs", self._docs())
        except Exception as e:
            return _DOC % e
        doc = docs[0] if docs else {}
        return doc.get("doc") or "\n\n".join(filter(None, (doc.get("signature"), doc.get("description")))) or _DOC % "none"


def _arguments(tool, args, kwargs):
    """(the tool's arguments, the call's options, names that can be either)."""
    if not args:
        return kwargs, {}, [n for n in ("raw", "timeout") if n in kwargs]
    if len(args) > 1 or not isinstance(args[0], dict):
        raise errors.ToolArgumentError(
            "%s takes its arguments by keyword, or as one dict; help(%s) shows them" % (tool.__qualname__, tool.__qualname__)
        )
    options = {n: kwargs.pop(n) for n in ("raw", "timeout") if n in kwargs}
    twice = [n for n in kwargs if n in args[0]]
    if twice:
        raise errors.ToolArgumentError("%s got %s twice" % (tool.__qualname__, ", ".join(twice)))
    return {**args[0], **kwargs}, options, ()


class Servers(dict):
    """mcp_servers: server name -> Server. An alias is accepted where no server has that name."""

    def __missing__(self, name):
        for server in self.values():
            if server.alias == name:
                return server
        raise errors.UnknownServerError(_absent(name) or self._others(name))

    def _others(self, name):
        names = ", ".join(sorted(self)) or "none"
        return "no server is named %r in this run; there are: %s" % (name, names[:2000])


def _absent(name):
    """Why the host says there is no server of this name: it may be defined and broken, or denied."""
    try:
        _channel.link().call("servers.describe", {"server": name})
    except (errors.UnknownServerError, errors.PolicyError) as e:
        return str(e)
    except errors.MCPError:
        return None  # there is no host to ask


class ServerModule(types.ModuleType):
    """mcp.servers.<alias>: from it any tool can be imported."""

    def __init__(self, server):
        super().__init__("mcp.servers." + server.alias, "Tools of the MCP server %s." % server.name)
        self.__dict__["_server"] = server

    def __getattr__(self, name):
        server = self.__dict__["_server"]
        if name in ("__all__", "TOOLS", "TOOL_MAP"):
            tools = _channel.link().call("tools.list", {"server": server.name}, _results.parse)
            if name == "TOOLS":
                return tools
            return [t["alias"] for t in tools] if name == "__all__" else {t["alias"]: t for t in tools}
        return getattr(server, name)
