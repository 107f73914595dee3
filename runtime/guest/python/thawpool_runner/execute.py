"""Runs the code as a module __main__ and finds out how it ended.

The code is compiled as it is, from its own bytes, with top-level await allowed; nothing is put around it. Without a
top-level await it runs with no event loop, as any script, so asyncio.run is its own. With one, all of it runs inside
one loop, and asyncio.run is made to work there too.
"""

import __future__
import ast
import asyncio
import functools
import inspect
import operator
import random
import sys
import types

from mcp import _lines

from . import advice, forking, loops, notes, report

AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
FUTURE = functools.reduce(operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))


def reseed():
    """State that the interpreter drew while it was being made ready: nothing random is older than the thaw."""
    random.seed()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


class Run:
    """One run of code. After go() the outcome is in value, error, notes and code (the exit status)."""

    def __init__(self, run, file):
        self.source = run["code"]
        self.limit = run.get("value_max") or 1 << 16
        self.file = file
        self.value = None
        self.error = None
        self.code = 0
        self.notes = notes.Notes()
        self.result = None
        self.space = {}  # the code's globals

    def go(self, namespace):
        """Runs the code with the names of namespace among its globals."""
        main = types.ModuleType("__main__")
        main.__file__ = self.file
        main.__builtins__ = sys.modules["builtins"]
        main.__dict__.update(namespace)
        sys.modules["__main__"] = main
        self.space = main.__dict__
        with self.notes:
            try:
                self._run(self.space)
                self.value, note = report.value(self.result, self.limit)
                self.notes.add(note)
            except SystemExit as e:
                self._exit(e)
            except BaseException as e:
                self._fail(e)
            self.result = None
            self.notes.scan(self.space)
        self.notes = self.notes.texts
        return self

    # Running -----------------------------------------------------------------------------------------------------

    def _run(self, space):
        parts = self._compile()
        try:
            if any(code.co_flags & inspect.CO_COROUTINE for code in parts):
                forking.with_await(True)
                with loops.nested():
                    caught = asyncio.run(self._inside(parts, space))
            else:
                forking.with_await(False)
                for code in parts:
                    self.result = eval(code, space)
                caught = asyncio.run(self._inside((), space)) if isinstance(self.result, types.CoroutineType) else None
        finally:
            sys.setprofile(None)  # what watched the code is not to see, or to end, what comes now
            sys.settrace(None)
        if caught is not None:
            raise caught

    async def _inside(self, parts, space):
        """Runs the parts in a loop. An exception comes back as a value: the loop would log and wrap it."""
        try:
            for code in parts:
                self.result = eval(code, space)
                if code.co_flags & inspect.CO_COROUTINE:
                    self.result = await self.result
            if isinstance(self.result, types.CoroutineType) or asyncio.isfuture(self.result):
                self.result = await self.result
        except BaseException as e:
            return e
        finally:
            sys.setprofile(None)  # as above; the loop's own end comes next
            sys.settrace(None)
        left = sum(1 for t in asyncio.all_tasks() if t is not asyncio.current_task() and not t.done())
        if left:
            self.notes.add("%d asyncio task(s) still ran when the code ended and were cancelled: await them" % left)
        return None

    def _compile(self):
        """The code as one or two code objects: all but a trailing expression, and that expression."""
        source = self.source[1:] if self.source.startswith("\ufeff") else self.source
        _lines.keep(self.file, source)
        tree = compile(source, self.file, "exec", ast.PyCF_ONLY_AST | AWAIT, dont_inherit=True)
        if not tree.body or not isinstance(tree.body[-1], ast.Expr):
            return [compile(tree, self.file, "exec", AWAIT, dont_inherit=True)]
        last = ast.Expression(tree.body.pop().value)
        first = compile(tree, self.file, "exec", AWAIT, dont_inherit=True)
        flags = AWAIT | (first.co_flags & FUTURE)
        return [first, compile(last, self.file, "eval", flags, dont_inherit=True)]

    # Endings -----------------------------------------------------------------------------------------------------

    def _exit(self, exc):
        """sys.exit, as the interpreter takes it."""
        try:
            code = exc.code
        except BaseException:
            code = exc  # as the interpreter
        if code is None:
            return
        if issubclass(type(code), int):
            code = int.__index__(code)  # a subclass could bring its own methods
            self.code = code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
            text = "exit status %d" % self.code
        else:
            self.code = 1
            text = report.message(code)
            try:
                sys.stderr.write("%s\n" % (code,))
            except BaseException:
                pass
        if self.code:
            self.error = {"type": "SystemExit", "message": text}

    def _fail(self, exc):
        self.code = 1
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000))  # the code may have lowered it; a report needs some
        self.error = report.error(exc, self.file)
        for text in advice.advice(exc, self.error["message"], self.source):
            self.notes.add(text)
        try:
            if sys.excepthook is not sys.__excepthook__:
                exc.__traceback__ = report.from_code(exc.__traceback__, self.file)
                sys.excepthook(type(exc), exc, exc.__traceback__)
        except BaseException:
            pass
