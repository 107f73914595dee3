"""What the reader of a result should know besides: above all coroutines that nobody awaited."""

import inspect
import types
import warnings

NOTES_MAX = 20
ITEMS_MAX = 1000  # of a container that is searched for coroutines


class Notes:
    """Collects texts; as a context it also hears the interpreter's "never awaited" warnings."""

    def __init__(self):
        self.texts = []
        self._plain = None

    def add(self, text):
        if text and text not in self.texts and len(self.texts) < NOTES_MAX:
            self.texts.append(text)

    def __enter__(self):
        self._plain = plain = warnings._warn_unawaited_coroutine

        def warn(coro):
            self._unawaited(coro)
            plain(coro)

        warnings._warn_unawaited_coroutine = warn
        return self

    def __exit__(self, *_):
        warnings._warn_unawaited_coroutine = self._plain

    def _unawaited(self, coro):
        name = coro.__qualname__
        self.add("%s(...) was never awaited, so it did not run: write `await %s(...)`" % (name, name))

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
            warnings._warn_unawaited_coroutine(obj)
            obj.close()

    def explain(self, exc, message):
        """Advice on errors whose own text does not say what to do."""
        if isinstance(exc, RuntimeError) and "event loop is already running" in message:
            self.add("the code has a top-level await, so it runs inside an event loop already: await the coroutine directly")
        if isinstance(exc, RuntimeError) and "no current event loop" in message:
            self.add("there is no event loop outside a running one: use top-level await, or asyncio.run(...)")
        if isinstance(exc, (TypeError, AttributeError)) and "'coroutine' object" in message:
            self.add("a call that returns a coroutine was used without await: write `await` in front of it")
