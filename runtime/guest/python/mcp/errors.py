"""The exceptions of the mcp package. All are MCPError; those with a builtin namesake are that one too."""

import builtins


class MCPError(RuntimeError):
    """A call to an MCP server, or to the host, failed. The text is the server's or the host's."""

    def __str__(self):
        return " ".join(builtins.str(a) for a in self.args)


class UnknownServerError(MCPError, builtins.KeyError):
    """There is no server of this name in this run."""


class UnknownToolError(MCPError):
    """The server has no tool of this name."""


class ToolArgumentError(MCPError, builtins.TypeError):
    """An argument is missing, misspelt or of a wrong type. The server was not called."""


class PolicyError(MCPError):
    """The operator's policy does not allow it."""


class VersionConflict(MCPError):
    """A memory was changed by somebody else since it was loaded."""


class TimeoutError(MCPError, builtins.TimeoutError):
    """The server or the host did not answer in time."""


class KeyError(MCPError, builtins.KeyError):
    """There is nothing under this key."""


class ValueError(MCPError, builtins.ValueError):
    """The host refused a value."""


_KINDS = {
    kind.__name__: kind
    for kind in (
        MCPError,
        UnknownServerError,
        UnknownToolError,
        ToolArgumentError,
        PolicyError,
        VersionConflict,
        TimeoutError,
        KeyError,
        ValueError,
    )
}

__all__ = list(_KINDS)

for _kind in _KINDS.values():
    _kind.__module__ = "mcp"  # where the code imports them from, and what a traceback shows


def from_reply(error):
    """The exception for the error of a reply frame."""
    kind = _KINDS.get(error.get("type"), MCPError)
    return kind(error.get("message") or "the host gave no reason")
