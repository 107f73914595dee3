"""A host for tests: starts a runner, sends one run, answers its calls, gathers what it sends."""

import atexit
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = tempfile.mkdtemp(prefix="guest-test-pyc-")  # bytecode of all runners, as images have it, but not beside the sources
atexit.register(shutil.rmtree, CACHE, True)
PATIENCE = 300  # seconds until a runner that hangs is killed; nothing waits for it otherwise


class HostError(Exception):
    """A handler raises it to answer a call with an error."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.reply = {"type": kind, "message": message}


LATER = object()  # a handler returns it to answer by itself, with Runner.reply


class Ended:
    """What a run left."""

    def __init__(self):
        self.frames = []
        self.out = {1: b"", 2: b""}
        self.done = None
        self.exit = None
        self.calls = []  # (verb, args)
        self.cancelled = []  # ids

    stdout = property(lambda self: self.out[1].decode("utf-8", "replace"))
    stderr = property(lambda self: self.out[2].decode("utf-8", "replace"))
    value = property(lambda self: self.done["value"])
    error = property(lambda self: self.done["error"])
    notes = property(lambda self: self.done["notes"])
    code = property(lambda self: self.exit.get("code"))
    signal = property(lambda self: self.exit.get("signal"))
    ok = property(lambda self: self.code == 0 and self.error is None)
    traceback = property(lambda self: self.error["traceback"])

    def __repr__(self):
        return "Ended(stdout=%r, stderr=%r, done=%r, exit=%r)" % (self.stdout, self.stderr, self.done, self.exit)


class Runner:
    """One runner process, up to its ready frame."""

    def __init__(self, env=None, handlers=None, limits=None, root=ROOT):
        self.workspace = tempfile.mkdtemp(prefix="guest-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        base = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "THAWPOOL"))}
        base.update(THAWPOOL_WORKSPACE=self.workspace, PYTHONUTF8="1", LANG="C.UTF-8", TZ="UTC", HOME=self.workspace)
        base.update(env or {})
        self.handlers = handlers or {}
        command = [sys.executable, "-I", "-X", "utf8", "-X", "pycache_prefix=" + CACHE, str(pathlib.Path(root) / "runner.py")]
        if limits:
            command = ["sh", "-c", limits + '; exec "$0" "$@"', *command]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=base,
        )
        self.watchdog = threading.Timer(PATIENCE, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()
        self.lock = threading.Lock()
        line = self.process.stdout.readline()
        self.ready = json.loads(line) if line else None

    @property
    def file(self):
        return os.path.join(self.workspace, "main.py")

    def close(self):
        self.watchdog.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except OSError:
                pass
        shutil.rmtree(self.workspace, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Frames ------------------------------------------------------------------------------------------------------

    def send(self, frame):
        with self.lock:
            self.process.stdin.write(json.dumps(frame, separators=(",", ":")).encode() + b"\n")
            self.process.stdin.flush()

    def reply(self, number, value=None, error=None):
        frame = {"t": "reply", "id": number}
        frame.update({"error": error} if error else {"value": value})
        self.send(frame)

    def start(self, code, servers=(), saved=(), value_max=65536):
        servers = [{"name": s, "alias": s, "description": "The %s server" % s} if isinstance(s, str) else s for s in servers]
        run = {"t": "run", "id": "r1", "code": code, "value_max": value_max, "servers": servers, "saved": list(saved)}
        self.send(run)

    def finish(self, ended=None, until=None):
        """Reads frames up to exit, or up to the first for which until(frame) is true."""
        ended = ended or Ended()
        for line in self.process.stdout:
            frame = json.loads(line)
            ended.frames.append(frame)
            self.take(frame, ended)
            if frame["t"] == "exit" or (until and until(frame)):
                return ended
        return ended

    def take(self, frame, ended):
        kind = frame["t"]
        if kind == "out":
            ended.out[frame["fd"]] += base64.b64decode(frame["b"]) if "b" in frame else frame["d"].encode()
        elif kind == "done":
            ended.done = frame
        elif kind == "exit":
            ended.exit = frame
        elif kind == "cancel":
            ended.cancelled.append(frame["id"])
        elif kind == "call":
            ended.calls.append((frame["verb"], frame["args"]))
            self.answer(frame)

    def answer(self, frame):
        handler = self.handlers.get(frame["verb"])
        if handler is None:
            return self.reply(frame["id"], error={"type": "MCPError", "message": "no handler for " + frame["verb"]})
        try:
            value = handler(frame["args"]) if not getattr(handler, "wants_frame", False) else handler(self, frame)
        except HostError as e:
            return self.reply(frame["id"], error=e.reply)
        if value is not LATER:
            self.reply(frame["id"], value)


def run(code, handlers=None, env=None, root=ROOT, **options):
    """Runs code in a runner of its own."""
    with Runner(env=env, handlers=handlers, root=root) as runner:
        if runner.ready is None:
            raise AssertionError("not ready: %s" % runner.process.stderr.read().decode())
        runner.start(code, **options)
        ended = runner.finish()
        ended.status = runner.process.wait()
        ended.file = runner.file
        return ended


class Case(unittest.TestCase):
    """Assertions about runs."""

    maxDiff = 4000

    def good(self, code, stdout=None, **options):
        ended = run(code, **options)
        self.assertTrue(ended.ok, ended)
        if stdout is not None:
            self.assertEqual(ended.stdout, stdout, ended)
        return ended

    def bad(self, code, kind, **options):
        ended = run(code, **options)
        self.assertIsNotNone(ended.done, ended)
        self.assertIsNotNone(ended.error, ended)
        self.assertEqual(ended.error["type"], kind, ended)
        self.assertEqual(ended.code, 1, ended)
        return ended
