"""From the start of the interpreter to the two processes: the parent, and the child that makes itself ready.

The fork comes first. Were it to come after the imports that the code needs, each page that either process touches then
would have to be copied: more work than the imports of the parent, which needs almost nothing.
"""

import _socket
import gc
import os
import sys

from . import linux, output, parent

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
await mcp_dry.tool(a=[1, "x"]), mcp_dry.tool.sync()
await f()
"""
DRY_FRAME = '{"t":"run","id":"","code":%s,"value_max":65536,"servers":[{"name":"dry","alias":"dry"}],"saved":[],"dry":true}\n'


def main():
    """Never returns."""
    gc.disable()  # until the child is ready; imports make almost no garbage
    host_in, host_out = take_frame_channel()
    ours, theirs = _socket.socketpair()
    stdout, stderr = os.pipe(), os.pipe()
    first = os.getpid()
    pid = os.fork()
    if pid == 0:
        be_child(first, theirs.detach(), stdout[1], stderr[1])
    theirs.close()
    os.close(stdout[1])
    os.close(stderr[1])
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    outputs = [output.Output(stdout[0], 1), output.Output(stderr[0], 2)]
    loop = parent.Parent(host_in, host_out, ours.detach(), outputs, pid)
    os._exit(loop.run((DRY_FRAME % output.quote(DRY_RUN)).encode()))


def take_frame_channel():
    """Moves the frame channel from fd 0 and 1 to private descriptors and puts /dev/null in its place."""
    host_in, host_out = os.dup(0), os.dup(1)  # close-on-exec, as every descriptor that os makes
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return host_in, host_out


def heed_signals(signal):
    """Undoes what is ignored since whoever started thawpool ignores it, as a nohup or a shell's & has it."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # which Python itself ignores
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def be_child(first, channel, stdout, stderr):
    """Never returns. Until ready, what goes wrong is told on stderr, which the parent passes on."""
    try:
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        fd = min(CHANNEL_FD, os.sysconf("SC_OPEN_MAX") - 1)
        os.dup2(channel, fd, inheritable=False)
        os.closerange(3, fd)  # the frame channel, the parent's ends, and what was inherited by mistake
        heed_signals(parent.signal)
        os.setsid()  # a signal to the code's own process group must not reach the parent
        linux.prctl(linux.PR_SET_PDEATHSIG, parent.signal.SIGKILL)
        if os.getppid() != first:
            os._exit(1)  # it died before the line above
        from . import bundle

        bundle.import_child().main(fd, os.environ.pop(PRELOAD, ""))
    except SystemExit as e:
        sys.stderr.write("thawpool runner: %s\n" % e)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)
