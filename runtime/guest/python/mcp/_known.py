"""Names that every run has among its globals."""

# Of mcp.runtime.
HELPERS = (
    "save_tool",
    "save_memory",
    "load_memory",
    "update_memory",
    "delete_memory",
    "list_memories",
    "memory_exists",
    "get_memory_info",
)

# All of them but the servers' own, which begin with mcp_.
NAMES = frozenset(("mcp", "mcp_servers", "LOADED_MCP_SERVERS", *HELPERS))
