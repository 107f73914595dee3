"""What the runner leaves out of the standard library comes back when the code wants it."""

import subprocess
import sys

from .harness import Case

LIST = """
import asyncio, ssl, sys
print(sorted(n for n, m in sys.modules.items() if n.startswith("asyncio") and getattr(m, "ssl", None) is ssl))
print(getattr(sys.modules["asyncio.sslproto"], "SSLAgainErrors", None) is not None or sys.version_info < (3, 11))
"""


class Lean(Case):
    def test_ssl_is_not_loaded_until_it_is_wanted(self):
        self.good("import sys\nprint('ssl' in sys.modules, '_ssl' in sys.modules)", "False False\n")

    def test_ssl_in_asyncio_as_in_a_plain_interpreter(self):
        plain = subprocess.run([sys.executable, "-c", LIST], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.good(LIST, plain)

    def test_preloaded_ssl(self):
        plain = subprocess.run([sys.executable, "-c", LIST], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.good(LIST, plain, env={"THAWPOOL_PRELOAD": "ssl"})

    def test_tls_through_asyncio(self):
        """A handshake up to the point where the server has no certificate to show."""
        self.good(
            """\
import asyncio, ssl, socket
async def serve(reader, writer): pass
server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
context = ssl.create_default_context()
try:
    await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=context, server_hostname="x")
except (ssl.SSLError, ConnectionError) as e:
    print("handshake was tried")
""",
            "handshake was tried\n",
        )
