# Tries to get out. ATTEMPTS are (name, source of a function's body); each runs in a process of its own. Prints as JSON
# what each gave: the name of an errno, a text that it returned, "succeeded", or the signal that ended it.
import ctypes, errno, fcntl, glob, json, mmap, os, resource, signal, socket, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)

def call(name, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result

def write(path, text="1"):
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text.encode())

def read(path):
    with open(path, "rb") as f:
        if not f.read(16): return "nothing"

def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as s:
        s.settimeout(5)
        s.connect(address)

def program(path, to):
    """Copies a program that works to a place where it may be changed."""
    with open(path, "rb") as f, open(to, "wb") as t:
        t.write(f.read(1 << 28))
    os.chmod(to, 0o6755)
    return to

def spawn(path, *args):
    pid = os.posix_spawn(path, [path, *args], {"PYTHONHOME": sys.base_prefix})
    return os.waitpid(pid, 0)[1]

def status(field):
    with open("/proc/self/status") as f:
        return next(line.split(":")[1].strip() for line in f if line.startswith(field + ":"))

def each(paths, f):
    """Tries f on every path; what stopped the last one tells, success of one is success."""
    last = OSError(errno.ENOENT, "no path")
    for p in paths:
        try:
            return f(p)
        except OSError as e:
            last = e
    raise last

def others():
    return [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid(), os.getppid())]

def answer_of(source):
    space = {}
    exec("def f():\n" + "".join("    " + line + "\n" for line in source.split("\n")), globals(), space)
    try:
        got = space["f"]()
        return "succeeded" if got is None else str(got)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
    except Exception as e:
        return type(e).__name__ + ": " + str(e)

def attempt(source):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)  # only for what hangs: a slow machine needs long for some
        quiet = os.open("/dev/null", os.O_WRONLY)
        os.dup2(quiet, 1), os.dup2(quiet, 2)
        os.write(w, answer_of(source).encode()[:4096])
        os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as f:
        got = f.read().decode(errors="replace")
    _, ended = os.waitpid(pid, 0)
    if os.WIFSIGNALED(ended):
        return signal.Signals(os.WTERMSIG(ended)).name + (" with a core" if os.WCOREDUMP(ended) else "")
    return got

print(json.dumps({name: attempt(source) for name, source in ATTEMPTS}))
