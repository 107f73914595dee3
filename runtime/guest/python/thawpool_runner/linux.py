"""The two calls into the C library that Python has no module for.

_ctypes alone is a fraction of the cost of ctypes, which every sandbox would pay for at each boot.
"""

import _ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4

_libc = _ctypes.dlopen(None, os.RTLD_NOW)
_prctl = _ctypes.dlsym(_libc, "prctl")
_fflush = _ctypes.dlsym(_libc, "fflush")


def prctl(option, value):
    """Calls prctl(2) with one argument; raises OSError when the kernel refuses."""
    if _ctypes.call_function(_prctl, (option, value, 0, 0, 0)) != 0:
        raise OSError("prctl(%d, %d) was refused" % (option, value))


def flush_c_streams():
    """Writes out what C code has put into stdout, stderr and other FILEs of this process."""
    _ctypes.call_function(_fflush, (0,))
