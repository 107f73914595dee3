"""Compile the files named on stdin, one "source<TAB>name in tracebacks<TAB>output" a line."""

import py_compile
import sys

for line in sys.stdin:
    source, display, output = line.rstrip("\n").split("\t")
    py_compile.compile(
        source,
        cfile=output,
        dfile=display,
        doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
