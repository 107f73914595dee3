"""The child: waits for the run, runs it, tells how it ended, and ends the process as the interpreter would."""

import atexit
import gc
import json
import os
import sys
import threading

import mcp._channel as channel
import mcp._names as names

from . import execute, linux

WORKSPACE = os.environ.get("THAWPOOL_WORKSPACE", "/workspace")


def serve(fd):
    """Serves the dry run and then the run. Never returns."""
    link = channel.Channel(fd)
    while True:
        line = link.read_line()
        if line is None:
            os._exit(0)
        run = json.loads(line)
        if run.get("t") != "run":
            continue
        if run.get("dry"):
            rehearse(link, run)
        else:
            perform(link, run)


def rehearse(link, run):
    """The dry run: the same path without what would stay. Ends with everything it left collected and frozen."""
    before = set(sys.modules)
    main = sys.modules["__main__"]
    ended = execute.Run(run, "/dry/main.py", link).go(names.namespace(link, run))
    for name in set(sys.modules) - before:
        sys.modules.pop(name)
    sys.modules["__main__"] = main
    flush()
    link.send(done(ended))
    del ended
    gc.collect()
    gc.freeze()


def perform(link, run):
    pid = os.getpid()
    file = settle(run["code"])
    execute.reseed()
    link.open()
    ended = execute.Run(run, file, link).go(names.namespace(link, run))
    if os.getpid() != pid:
        leave_fork(ended)
    if not link.send(done(ended)) and ended.error:
        sys.stderr.write(ended.error.get("traceback") or "")
    finish(ended.code)


def settle(code):
    """Puts the code where a script would be. Without a workspace (outside a sandbox) it has only its name."""
    file = os.path.join(WORKSPACE, "main.py")
    sys.argv[:] = [file]
    sys.path[0:0] = [WORKSPACE]
    try:
        os.chdir(WORKSPACE)
        with open(file, "wb") as f:
            f.write(code.encode("utf-8", "surrogatepass"))
    except OSError:
        pass
    return file


def done(ended):
    return json.dumps({"t": "done", "value": ended.value, "error": ended.error, "notes": ended.notes}, separators=(",", ":"))


def leave_fork(ended):
    """The code forked and let the copy run to its end here. It is not the run: it only ends like a script."""
    if ended.error:
        sys.stderr.write(ended.error["traceback"])
    finish(ended.code)


def finish(code):
    """What the interpreter does at its end, in its order, short of taking itself down."""
    try:
        threading._shutdown()  # waits for the threads that are not daemons
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    drop_globals()
    if not flush():
        code = code or 120  # as the interpreter
    linux.flush_c_streams()
    os._exit(code & 0xFF)


def drop_globals():
    """Lets go of the code's globals, so that files are written out and __del__ methods run as at a script's end."""
    space = sys.modules["__main__"].__dict__
    for private in (True, False):
        for name in list(space):
            if name.startswith("_") == private and name != "__builtins__":
                space[name] = None


def flush():
    """Whether both streams could be written out."""
    good = True
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            good = False
    return good
