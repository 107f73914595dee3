"""From the start of the interpreter to ready: imports, preloads, the fork, one dry run.

Everything that a run commonly needs is imported here, before the fork, so that a thawed sandbox imports nothing.
"""

import ast  # noqa: F401  (this and the others: see above)
import asyncio  # noqa: F401
import gc
import importlib
import inspect  # noqa: F401
import io  # noqa: F401
import json
import linecache  # noqa: F401
import os
import resource
import signal
import socket
import sys
import threading  # noqa: F401
import traceback  # noqa: F401

import mcp.runtime  # noqa: F401
import mcp.servers  # noqa: F401
import mcp.tools  # noqa: F401

from . import child, forking, linux, parent

PRELOAD = "THAWPOOL_PRELOAD"  # environment: names of modules to import besides, separated by commas
CHANNEL_FD = 200  # the child's only private descriptor, out of the way of code that tries the low numbers

# What the dry run goes through is what a first real run would otherwise find cold.
DRY_RUN = """
import asyncio, sys
async def f(x=[1, 2.0, "three", None]):
    await asyncio.sleep(0)
    return {str(i): repr(i) for i in x}
class A:
    def __init__(self): self.x = 1
print("dry", A().x, await asyncio.gather(f(), f()))
sys.stderr.write("dry\\n")
try:
    1 / 0
except ZeroDivisionError as e:
    x = str(e)
await f()
"""


def main():
    """Never returns."""
    forking.install()
    preload(os.environ.pop(PRELOAD, ""))
    host_in, host_out = take_frame_channel()
    ours, theirs = socket.socketpair()
    stdout, stderr = os.pipe(), os.pipe()
    gc.collect()
    gc.freeze()
    first = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(host_in)
            os.close(host_out)
            become_child(first, theirs.detach(), stdout[1], stderr[1])
            child.serve(CHANNEL_FD)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    theirs.close()
    os.close(stdout[1])
    os.close(stderr[1])
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    outputs = [parent.Output(stdout[0], 1), parent.Output(stderr[0], 2)]
    run = json.dumps({"t": "run", "id": "", "code": DRY_RUN, "value_max": 1 << 16, "servers": [], "saved": [], "dry": True})
    loop = parent.Parent(host_in, host_out, ours.detach(), outputs, pid)
    os._exit(loop.run(run.encode() + b"\n"))


def preload(names):
    """Imports what the operator asked for. A module that cannot be had is told before anybody waits for this sandbox."""
    for name in filter(None, (n.strip() for n in names.split(","))):
        try:
            importlib.import_module(name)
        except BaseException as e:
            sys.stderr.write("thawpool runner: cannot preload %s: %s: %s\n" % (name, type(e).__name__, e))
            sys.stderr.flush()
            os._exit(3)


def take_frame_channel():
    """Moves the frame channel from fd 0 and 1 to private descriptors and puts /dev/null in its place."""
    host_in, host_out = os.dup(0), os.dup(1)  # close-on-exec, as every descriptor that os makes
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return host_in, host_out


def become_child(first, channel, stdout, stderr):
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.dup2(channel, CHANNEL_FD, inheritable=False)
    # Also what this process has inherited by mistake, and the other ends of its own pipes.
    os.closerange(3, CHANNEL_FD)
    os.setsid()  # a signal to the code's own process group must not reach the parent
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != first:
        os._exit(1)  # it died before the line above
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdin = sys.__stdin__ = open(0, closefd=False, encoding="utf-8")
    sys.stdout = sys.__stdout__ = writer(1, "<stdout>")
    sys.stderr = sys.__stderr__ = writer(2, "<stderr>")


def writer(fd, name):
    """A standard stream. A whole line leaves at once, so that what was printed before a crash, a kill or a timeout is not
    lost with it; a lone surrogate is escaped, so that no text makes it fail."""
    raw = io.FileIO(fd, "w", closefd=False)
    raw.name = name
    stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)
    stream.mode = "w"
    return stream
