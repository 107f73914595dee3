"""The line to the host: call frames go out, replies come back, in any order and to any thread or event loop.

Replies are read by one thread that is started with the first call. It only finds whom a reply is for: who waits for it
decodes it, so that a reply that cannot be decoded hurts nobody else.
"""

import _thread
import asyncio
import os
import re
from json import loads

from . import _encode, errors

LINE_MAX = 16 << 20  # bytes with the newline, as the host has it
_ID = re.compile(rb'\{"t":"reply","id":(\d+),')
_GONE = "the connection to the host is closed"


class Channel:
    """Owns the descriptor. Before open() it belongs to the runner, which reads lines from it one at a time."""

    def __init__(self, fd):
        self._fd = fd
        self._rest = b""
        self._sending = _thread.allocate_lock()
        self._state = _thread.allocate_lock()  # guards what follows
        self._waiting = {}  # id -> function that is given the reply line, or None when there will be none
        self._last = 0
        self._reading = False
        self._gone = None  # why nothing can be called, once that is so

    # For the runner ----------------------------------------------------------------------------------------------

    def read_line(self):
        """The next line without its newline, None at the end."""
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                return line
            data = os.read(self._fd, 1 << 16)
            if not data:
                return None
            self._rest += data

    def open(self):
        """From here on the channel carries calls. A process that the code forks loses it: replies would go astray."""
        os.register_at_fork(after_in_child=self._forbid)

    def send(self, text):
        """Writes one line; tells whether it could."""
        data = text.encode("ascii") + b"\n"
        try:
            with self._sending:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._fd, view):]
        except OSError:
            return False
        return True

    def _forbid(self):
        self._gone = "only the process that runs the code can call the host, not one that it has forked"
        self._sending = _thread.allocate_lock()
        self._state = _thread.allocate_lock()
        self._waiting = {}
        try:
            os.close(self._fd)
        except OSError:
            pass
        self._fd = -1

    # Calls -------------------------------------------------------------------------------------------------------

    def call(self, verb, args, parse=loads, timeout=None):
        """Asks the host and waits on this thread, at most timeout seconds: then asyncio's TimeoutError, as asyncio.wait_for
        gives it for call_async."""
        arrived = _thread.allocate_lock()
        arrived.acquire()
        got = []

        def deliver(line):
            got.append(line)
            arrived.release()

        number = self._begin(verb, args, deliver)
        limit = -1 if timeout is None else min(max(timeout, 0), _thread.TIMEOUT_MAX)
        try:
            if not arrived.acquire(timeout=limit):
                raise asyncio.TimeoutError
        except BaseException:
            self._cancel(number)
            raise
        return _answer(got[0], parse)

    async def call_async(self, verb, args, parse=loads):
        """Asks the host and lets the running loop go on."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def settle(line):
            if not future.done():
                future.set_result(line)

        def deliver(line):
            try:
                loop.call_soon_threadsafe(settle, line)
            except RuntimeError:
                pass  # that loop is closed, and with it whoever waited

        number = self._begin(verb, args, deliver)
        try:
            line = await future
        except BaseException:
            self._cancel(number)
            raise
        return _answer(line, parse)

    def _begin(self, verb, args, deliver):
        text = _encode.encode(args)
        with self._state:
            if self._gone:
                raise errors.MCPError(self._gone)
            self._last += 1
            number = self._last
            line = '{"t":"call","id":%d,"verb":"%s","args":%s}' % (number, verb, text)
            if len(line) >= LINE_MAX:
                raise errors.ToolArgumentError("the arguments take %d bytes; at most %d can be sent" % (len(line), LINE_MAX))
            self._listen()
            self._waiting[number] = deliver
        if not self.send(line):
            self._end(_GONE)
        return number

    def _listen(self):
        if self._reading:
            return
        try:
            # Not a threading.Thread: the code must not find or wait for a thread that it did not start.
            _thread.start_new_thread(self._read, ())
        except RuntimeError as e:
            raise errors.MCPError("no call can be made: %s; the sandbox's limit of processes is reached" % e) from None
        self._reading = True

    def _cancel(self, number):
        with self._state:
            waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self.send('{"t":"cancel","id":%d}' % number)

    # Replies -----------------------------------------------------------------------------------------------------

    def _read(self):
        line = bytearray(self._rest)
        while True:
            try:
                data = os.read(self._fd, 1 << 18)
            except OSError:
                data = b""
            if not data:
                return self._end(_GONE)
            start = 0
            while True:
                end = data.find(b"\n", start)
                if end < 0:
                    break
                line += memoryview(data)[start:end]
                self._deliver(bytes(line))
                line.clear()
                start = end + 1
            line += memoryview(data)[start:]

    def _deliver(self, line):
        match = _ID.match(line)
        number = int(match.group(1)) if match else _number(line)
        with self._state:
            deliver = self._waiting.pop(number, None)
        if deliver is not None:  # else it was cancelled
            deliver(line)

    def _end(self, why):
        with self._state:
            self._gone = self._gone or why
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for deliver in waiting:
            deliver(None)


class Echo:
    """Stands in for a channel in the dry run: each call gets its arguments back, by the same code as far as that goes."""

    def call(self, verb, args, parse=loads, timeout=None):
        reply = '{"t":"reply","id":1,"value":{"content":[],"structuredContent":%s}}' % _encode.encode(args)
        return _answer(reply if _ID.match(reply.encode()) else None, parse)

    async def call_async(self, verb, args, parse=loads):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon_threadsafe(future.set_result, None)
        await future
        return self.call(verb, args, parse)


def _number(line):
    """The id of a reply that is not written as our host writes it."""
    try:
        frame = loads(line)
        return frame["id"] if frame["t"] == "reply" else None
    except Exception:
        return None


def _answer(line, parse):
    if line is None:
        raise errors.MCPError(_GONE)
    try:
        reply = parse(line)
    except (RecursionError, ValueError) as e:
        raise errors.MCPError("the answer cannot be decoded: %s" % e) from None
    if reply.get("error") is not None:
        raise errors.from_reply(reply["error"])
    return reply.get("value")


# The one channel of this process: set by the runner when the code starts.
current = None


def link():
    """The channel, or an error that tells why there is none."""
    if current is None:
        raise errors.MCPError("MCP calls work only in the process that runs the code")
    return current
