"""Imports asyncio without ssl, which it only needs for TLS connections: a twentieth of a sandbox's start, and a sandbox has
no network. Code that imports ssl gets an asyncio that has it too.
"""

import sys

from . import hooks

_absent = object()


def import_asyncio():
    """The module asyncio, as light as it can be."""
    before = sys.modules.get("ssl", _absent)
    if before is _absent and "asyncio" not in sys.modules:
        sys.modules["ssl"] = None  # an import of it fails now, which asyncio is made for
    try:
        import asyncio
    finally:
        if before is _absent and sys.modules.get("ssl", _absent) is None:
            del sys.modules["ssl"]
    hooks.after_import("ssl", _give_back)
    return asyncio


def _give_back(ssl):
    for name, module in list(sys.modules.items()):
        if name.startswith("asyncio.") and getattr(module, "ssl", ssl) is None:
            module.ssl = ssl
    sslproto = sys.modules["asyncio.sslproto"]
    sslproto.SSLAgainErrors = (ssl.SSLWantReadError, ssl.SSLSyscallError)
