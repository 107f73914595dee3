"""Names that every run has among its globals, so that a saved tool need not bring them."""

NAMES = frozenset(
    """mcp mcp_servers LOADED_MCP_SERVERS save_tool save_memory load_memory update_memory delete_memory list_memories
    memory_exists get_memory_info""".split()
)
