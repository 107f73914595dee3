"""The child: imports, waits for the run, runs it, tells how it ended, and ends the process as the interpreter would.

Everything that a run commonly needs is imported here, before ready, so that a thawed sandbox imports nothing.
"""

from . import lean

asyncio = lean.import_asyncio()

import ast  # noqa: E402,F401  (this and others are for the code: see above)
import atexit
import gc
import importlib
import inspect  # noqa: F401
import io
import linecache
import os
import resource
import sys
import threading
import traceback  # noqa: F401
from json import dumps, loads  # the code may replace what is in the module

import mcp._channel as channel
import mcp._names as names
import mcp.runtime  # noqa: F401
import mcp.servers  # noqa: F401
import mcp.tools  # noqa: F401

from . import execute, forking, linux, report

DRY_FILE = "/dry/main.py"
WORKSPACE = os.environ.get("THAWPOOL_WORKSPACE", "/workspace")
MAIN_FILE = os.path.join(WORKSPACE, "main.py")


def main(fd, preloads):
    """Never returns."""
    if resource.getrlimit(resource.RLIMIT_CORE)[0] not in (0, 1):  # a sandbox has it at 1, for good
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    sys.stdin = sys.__stdin__ = open(0, closefd=False, encoding="utf-8")
    sys.stdout = sys.__stdout__ = writer(1, "<stdout>")
    sys.stderr = sys.__stderr__ = writer(2, "<stderr>")
    forking.install()
    preload(preloads)
    make_main()
    serve(fd)


def writer(fd, name):
    """A standard stream. A whole line leaves at once, so that what was printed before a crash, a kill or a timeout is not
    lost with it; a lone surrogate is escaped, so that no text makes it fail."""
    raw = io.FileIO(fd, "w", closefd=False)
    raw.name = name
    stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)
    stream.mode = "w"
    return stream


def preload(names):
    """Imports what the operator asked for. A module that cannot be had is told before anybody waits for this sandbox."""
    for name in filter(None, (n.strip() for n in names.split(","))):
        try:
            importlib.import_module(name)
        except BaseException as e:
            raise SystemExit("cannot preload %s: %s: %s" % (name, type(e).__name__, e))


def serve(fd):
    """Serves the dry run and then the run."""
    link = channel.Channel(fd)
    while True:
        line = link.read_line()
        if line is None:
            os._exit(0)
        run = loads(line)
        if run.get("t") != "run":
            continue
        if run.get("dry"):
            rehearse(link, run)
        else:
            perform(link, run)


def rehearse(link, run):
    """The dry run: the same path without what would stay. Ends with all that there is put out of the
    collector's sight."""
    main = sys.modules["__main__"]
    ended = execute.Run(run, DRY_FILE).go(names.namespace(channel.Echo(), run))
    sys.modules["__main__"] = main
    linecache.cache.pop(DRY_FILE, None)
    if sys.version_info < (3, 14):
        asyncio.set_event_loop_policy(None)  # forgets that a loop was there: get_event_loop makes one for new code
    try:
        ended.value.missing  # an exception's report is part of the path too
    except AttributeError as e:
        report.error(e, __file__)
    flush()
    link.send(done(ended))
    del ended
    gc.freeze()  # without a collection: it would cost more than what imports leave behind
    gc.enable()


def perform(link, run):
    pid = os.getpid()
    file = settle(run["code"])
    execute.reseed()
    link.open()
    for name in [m for m in sys.modules if m.partition(".")[0] == __package__]:
        del sys.modules[name]  # not the code's affair
    ended = execute.Run(run, file).go(names.namespace(link, run))
    if os.getpid() != pid:
        leave_fork(ended)
    if not link.send(done(ended)) and ended.error:
        tell(ended.error.get("traceback") or "")
    finish(ended, link)


def settle(code):
    """Puts the code where a script would be. Without a workspace (outside a sandbox) it has only its name."""
    sys.argv[:] = [MAIN_FILE]
    sys.path[0:0] = [WORKSPACE]
    try:
        os.chdir(WORKSPACE)
        write_main(code)
    except OSError:
        pass
    return MAIN_FILE


def make_main():
    """Makes the code's file before the code is there. Were it made when the code starts, a module that the code writes within
    the same tick of the kernel's clock would leave the directory's time as it is; import looks at that time, and would
    not see the module."""
    try:
        write_main("")
    except OSError:
        pass  # as above


def write_main(code):
    fd = os.open(MAIN_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        os.write(fd, code.encode("utf-8", "surrogatepass"))
    finally:
        os.close(fd)


def done(ended):
    return dumps({"t": "done", "value": ended.value, "error": ended.error, "notes": ended.notes}, separators=(",", ":"))


def tell(text):
    """Writes to stderr, where the code has left one that works."""
    try:
        sys.stderr.write(text)
    except BaseException:
        pass


def leave_fork(ended):
    """The code forked and let the copy run to its end here. It is not the run: it only ends like a script."""
    if ended.error:
        tell(ended.error.get("traceback") or "")
    finish(ended)


def finish(ended, link=None):
    """What the interpreter does at its end, in its order, short of destroying modules and itself. With the last line on
    the channel the parent need not wait until the kernel has taken this process apart."""
    code = ended.code
    try:
        threading._shutdown()  # waits for the threads that are not daemons
    except BaseException as e:
        tell(report.error(e, ended.file)["traceback"])
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass  # it has printed what failed; until 3.9 it raises the last of it as well
    failed = flush()
    if failed:
        code = code or 120  # as the interpreter
    sys.stdout, sys.stderr = getattr(sys, "__stdout__", None), getattr(sys, "__stderr__", None)
    tell("".join("thawpool: %s could not be written out: %s\n" % each for each in failed))
    drop(ended.space)
    flush()  # what the last destructors printed
    linux.flush_c_streams()
    code &= 0xFF
    if link is not None:
        link.send('{"t":"bye","code":%d}' % code)
    os._exit(code)


def drop(space):
    """Lets go of the code's globals, so that files are written out and __del__ methods run as at a script's end. What else
    holds an object, an imported module or a cycle of references, keeps it: its __del__ does not run."""
    for private in (True, False):
        for name in list(space):
            if type(name) is str and name != "__builtins__" and name.startswith("_") == private:
                space[name] = None


def flush():
    """Writes the streams out, whatever the code has put in their place; gives (name, error) of each that failed."""
    failed = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            closed = stream is None or bool(stream.closed)
        except BaseException:
            closed = False  # something of the code's own, which need not know
        try:
            if not closed:
                stream.flush()
        except BaseException as e:
            failed.append(("sys." + name, "%s: %s" % (report.type_name(e), report.message(e))))
    return failed
