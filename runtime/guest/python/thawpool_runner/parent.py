"""The first process of a sandbox: one poll loop between the host, the child and the child's output.

It alone holds the frame channel. It never waits for one side while another has something: reads happen when poll
reports them, writes go into buffers. Where the host does not read, the child's output and calls wait in the kernel, so
this process's memory is bounded too. It has no timer: time that passes while the sandbox is frozen means nothing.

It imports next to nothing, and the underscored modules in place of what is built on them, because it is forked off
before the imports that the code needs: what it has in memory, it has alone.
"""

import os
import select
import sys
import _signal as signal

from .output import quote

FRAME_MAX = 16 << 20  # bytes of one line with its newline, as package guest has it
CHUNK = 64 << 10  # bytes of payload in one out frame; a pipe's default capacity
PIPE_MAX = 1 << 20  # bytes that a pipe can be made to hold without privilege
BACKLOG = 256 << 10  # bytes waiting for the host at which the child has to wait too
VERSION = ("%d.%d.%d" % sys.version_info[:3]).encode()
FORWARDED = (b'{"t":"call",', b'{"t":"cancel",', b'{"t":"done",')
BYE = b'{"t":"bye","code":'


class Parent:
    """The loop. run() returns the exit status of this process."""

    def __init__(self, host_in, host_out, channel, outputs, child):
        self.host_in, self.host_out = host_in, host_out
        self.channel = channel
        self.outputs = {o.fd: o for o in outputs}
        self.child = child
        self.status = None  # wait status of the child once it has gone
        self.bye = None  # exit status that the child announced as the last thing it does
        self.warming = True  # the dry run: nothing of it reaches the host
        self.rehearsed = bytearray()  # what came on the child's stderr before ready
        self.to_host = bytearray()
        self.to_child = bytearray()
        self.deaf = False  # the child takes nothing any more
        self.line = bytearray()  # of the child, not ended yet
        self.poll = select.poll()
        self.asked = {}
        for fd in (host_in, host_out, channel, *self.outputs):
            os.set_blocking(fd, False)
        self.wake = self._wake_on_child()

    def _wake_on_child(self):
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored for a pid 1, deadly elsewhere; never an exception here
        return reader

    def run(self, first):
        """Hands the dry run to the child, says ready after it, then serves until the child or the host has gone."""
        self.to_child += first
        self._reap()  # the child may have gone before SIGCHLD had a handler
        while self.status is None and self.bye is None:
            self._ask()
            for fd, events in self.poll.poll():
                self._serve(fd, events)
            self._write_child()
            self._write_host()
        self._finish()
        return 0

    # Interest in descriptors -------------------------------------------------------------------------------------

    def _ask(self):
        """Tells poll what this loop can take now. A descriptor that is not wanted is not registered at all: poll would
        report its hang-up again and again."""
        wanted = {self.host_in: select.POLLIN, self.wake: select.POLLIN}
        channel = 0
        if len(self.to_host) < BACKLOG:
            channel = select.POLLIN
            for fd in self.outputs:
                wanted[fd] = select.POLLIN
        if self.to_child:
            channel |= select.POLLOUT
        if channel and self.channel is not None:
            wanted[self.channel] = channel
        if self.to_host:
            wanted[self.host_out] = select.POLLOUT
        if wanted == self.asked:
            return
        for fd in self.asked.keys() - wanted.keys():
            self.poll.unregister(fd)
        for fd, events in wanted.items():
            if self.asked.get(fd) != events:
                self.poll.register(fd, events)
        self.asked = wanted

    def _serve(self, fd, events):
        """Reads what has come; what is to be written the loop tries each time around."""
        if fd == self.wake:
            os.read(fd, 512)
            self._reap()
        elif fd == self.host_in:
            self._from_host()
        elif fd == self.channel:
            if events & ~select.POLLOUT:
                self._from_child()
        elif fd in self.outputs:
            self._from_output(self.outputs[fd])

    # The host ----------------------------------------------------------------------------------------------------

    def _from_host(self):
        data = self._read(self.host_in, 1 << 20)
        if data is None:
            return
        if not data:
            self._end()  # the host has gone
        if not self.deaf:
            self.to_child += data

    def _send(self, frame):
        """Puts a frame into the line of those that the loop writes."""
        if not self.warming:
            self.to_host += frame

    def _write_host(self):
        try:
            while self.to_host:
                with memoryview(self.to_host) as view:
                    n = os.write(self.host_out, view)
                del self.to_host[:n]
        except BlockingIOError:
            pass
        except OSError:
            self._end()  # the host does not listen any more

    # The child ---------------------------------------------------------------------------------------------------

    def _write_child(self):
        try:
            while self.to_child and self.channel is not None:
                with memoryview(self.to_child) as view:
                    n = os.write(self.channel, view)
                del self.to_child[:n]
        except BlockingIOError:
            pass
        except OSError:  # it closed its end; what it wrote before is still to be read
            self.deaf = True
            self.to_child.clear()

    def _from_child(self):
        data = self._read(self.channel, 256 << 10)
        if data is None:
            return
        if not data:
            self._forget_channel()
            return
        start = 0
        while True:
            end = data.find(b"\n", start) + 1
            if not end:
                break
            self.line += memoryview(data)[start:end]
            start = end
            line, self.line = self.line, bytearray()
            self._line(line)
        self.line += memoryview(data)[start:]
        if len(self.line) >= FRAME_MAX:
            self._drop("a line longer than %d bytes" % FRAME_MAX)

    def _line(self, line):
        if len(line) > FRAME_MAX:
            self._drop("a line longer than %d bytes" % FRAME_MAX)
        if not line.startswith(FORWARDED):
            code = line[len(BYE) : -2]
            if not (line.startswith(BYE) and line.endswith(b"}\n") and code.isdigit() and len(code) <= 3):
                self._drop("a malformed line")
            self.bye = int(code)
            return
        if self.warming:
            if line.startswith(FORWARDED[2]):
                self._ready(line)
            return
        self._send(line)

    def _ready(self, done):
        """The dry run is over: its output has been read or is thrown away, and the host may send the run."""
        if b'"error":null' not in done:
            self._fail("the dry run failed: " + done.decode("utf-8", "replace"))
        for output in self.outputs.values():
            while self._read(output.fd, CHUNK):
                pass
            output.rest = b""
        self.warming = False
        self.rehearsed.clear()
        self._send(b'{"t":"ready","v":1,"python":"%s"}\n' % VERSION)

    def _from_output(self, output):
        data = self._read(output.fd, CHUNK - len(output.rest))
        if data is None:
            return
        if self.warming and output.number == 2:
            self.rehearsed += data
        frame = output.frame(data)
        if frame:
            self._send(frame.encode())
        if not data:
            self._close_output(output)

    def _close_output(self, output):
        del self.outputs[output.fd]
        self._unpoll(output.fd)
        os.close(output.fd)

    def _forget_channel(self):
        """The code closed its end, or is gone. It may still print and end; it can no longer call."""
        self.deaf = True
        self._unpoll(self.channel)
        os.close(self.channel)
        self.channel = None
        self.to_child.clear()

    def _unpoll(self, fd):
        if self.asked.pop(fd, None) is not None:
            self.poll.unregister(fd)

    @staticmethod
    def _read(fd, n):
        """Bytes, empty at the end, None when there is nothing now."""
        try:
            return os.read(fd, n)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _reap(self):
        """Collects every process that has ended: as pid 1 this one inherits the orphans of the sandbox."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.status = status

    # The end -----------------------------------------------------------------------------------------------------

    def _finish(self):
        """The child has gone, or has said bye: tells what is left in its pipes and how it ended. A child that said bye has
        run and written everything; taking its memory apart is work of the kernel that nobody needs to wait for."""
        if self.warming:
            self._fail("it ended before it was ready, %s" % self._how())
        if self.channel is not None and self.bye is None:
            self._drain(self.channel, FRAME_MAX, self._from_child)
        self._drain_outputs()
        self._exit('{"t":"exit",%s}\n' % self._how())

    def _drain_outputs(self):
        for fd, output in list(self.outputs.items()):
            # A process that the code left behind may write for ever: only what fits the pipe can be older than the end.
            self._drain(fd, PIPE_MAX, lambda o=output: self._from_output(o))
            if output.rest:
                self._send(output.frame(b"").encode())

    def _drain(self, fd, size, read):
        ready = select.poll()
        ready.register(fd, select.POLLIN)
        while size > 0 and (fd == self.channel or fd in self.outputs) and ready.poll(0):
            read()
            size -= CHUNK

    def _how(self):
        if self.bye is not None:
            return '"code":%d' % self.bye
        if os.WIFSIGNALED(self.status):
            return '"signal":%d' % os.WTERMSIG(self.status)
        return '"code":%d' % os.WEXITSTATUS(self.status)

    def _drop(self, what):
        """The code broke the channel's rules. That ends its run, and nothing else."""
        text = "thawpool: the run was ended because the code wrote %s to the runner's own channel\n" % what
        self._kill()
        self._drain_outputs()
        self._send(('{"t":"out","fd":2,"d":%s}\n' % quote(text)).encode())
        self._exit('{"t":"exit","code":1,"reason":%s}\n' % quote(text.strip()))

    def _exit(self, frame):
        self.to_host += frame.encode()
        os.set_blocking(self.host_out, True)
        self._write_host()
        if self._kill():
            os.waitpid(self.child, 0)
        os._exit(0)

    def _fail(self, why):
        """Before ready: the reason is for the log of whoever starts sandboxes."""
        self._drain_outputs()
        os.write(2, b"%sthawpool runner: %s\n" % (self.rehearsed, why.encode()))
        self._end(3)

    def _end(self, status=0):
        self._kill()
        os._exit(status)

    def _kill(self):
        """Kills the child unless it has been reaped: its number may be another process's by then. Tells whether it did."""
        if self.status is None:
            os.kill(self.child, signal.SIGKILL)
        return self.status is None
