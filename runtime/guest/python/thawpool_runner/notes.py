"""What the reader of a result should know besides: above all coroutines that nobody awaited."""

import inspect
import os
import types
import warnings

from . import advice

NOTES_MAX = 20
TEXT_MAX = 2000  # characters of one
ITEMS_MAX = 1000  # of a container that is searched for coroutines
NO_LINE = 1 << 20  # a stack level above all: the warning is about no line


class Notes:
    """Collects texts; as a context it also hears the interpreter's "never awaited" warnings, and of os.system in vain."""

    def __init__(self):
        self.texts = []
        self._plain = None

    def add(self, text):
        if text and text not in self.texts and len(self.texts) < NOTES_MAX:
            self.texts.append(text[:TEXT_MAX])

    def __enter__(self):
        self._plain = warnings._warn_unawaited_coroutine, os.system
        warnings._warn_unawaited_coroutine = self._unawaited
        os.system = advice.told_of_no_shell(os.system, self.add)
        return self

    def __exit__(self, *_):
        warnings._warn_unawaited_coroutine, os.system = self._plain

    def _unawaited(self, coro, level=2):
        """Warns as the interpreter does, which calls it from the code: called from here its own would name this file."""
        name = coro.__qualname__
        self.add("%s(...) was never awaited, so it did not run: write `await %s(...)`" % (name, name))
        warnings.warn("coroutine %r was never awaited" % name, RuntimeWarning, level)

    def scan(self, space):
        """Finds coroutines that were kept in a global, or in a list or dict there, and never started. The interpreter
        would warn of them while it takes itself down, which this process does not."""
        for obj in list(space.values()):
            self._look(obj)
            if type(obj) in (list, tuple, set, dict) and len(obj) <= ITEMS_MAX:
                for item in list(obj.values() if type(obj) is dict else obj):
                    self._look(item)

    def _look(self, obj):
        if type(obj) is types.CoroutineType and inspect.getcoroutinestate(obj) == inspect.CORO_CREATED:
            try:
                self._unawaited(obj, NO_LINE)
            except BaseException:
                pass  # the code has made errors of warnings, or has a showwarning of its own that fails
            obj.close()
