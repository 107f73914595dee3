"""Bounded text for what the code left: the value of its last expression, or the exception that ended it.

Nothing here may fail, whatever __repr__, __str__ or metaclass the code brings: a failure inside is told in its place.
"""

import os
import traceback

from . import HERE

NAME_MAX = 500  # characters of a type's name
MESSAGE_MAX = 8 << 10  # characters of an exception's own text
TRACEBACK_MAX = 32 << 10  # characters; the head and the tail stay
FRAMES_MAX = 100  # of each end of a stack; more only in code that raised the recursion limit
CHAIN_MAX = 20  # linked or grouped exceptions whose stacks are cleaned
DEPTH_MAX = 1000  # containers within containers; the interpreter's own recursion limit
VISITS_MAX = 5000  # items looked at to find the depth of a value
_DEEP = "the value is nested too deeply to be shown"


def cut_middle(text, limit):
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return "%s\n... [%d characters left out] ...\n%s" % (text[:head], len(text) - limit, text[-tail:])


def type_name(exc):
    try:
        return cut_middle(_printable(type.__dict__["__name__"].__get__(type(exc))), NAME_MAX)
    except BaseException:
        return "BaseException"


# Values -----------------------------------------------------------------------------------------------------------


def value(obj, limit):
    """(repr of obj in at most limit bytes of UTF-8 or None, note or None). None has no value, as at a prompt."""
    if obj is None:
        return None, None
    try:
        if _depth_over(obj, DEPTH_MAX):
            return None, "value: " + _DEEP
        text = repr(_head(obj, limit))
    except RecursionError:
        return None, "value: " + _DEEP
    except BaseException as e:
        return None, "value: repr() of a %s failed: %s: %s" % (type_name(obj), type_name(e), message(e)[:500])
    data = str.encode(text, "utf-8", "backslashreplace")  # not text.encode: a subclass could bring its own methods
    if len(data) <= limit:
        return data.decode(), None
    mark = " ... [cut]"
    kept = data[: max(0, limit - len(mark))].decode("utf-8", "ignore")
    size = _size(obj)
    return kept + mark, "value: cut to %d bytes%s; print what you need of it" % (limit, size)


def _depth_over(obj, limit):
    """Whether builtin containers are nested deeper than limit, as far as a bounded look can tell. repr() of such a value
    takes time that grows with the square of its depth before it fails."""
    trail, within = [(None, iter((obj,)))], set()
    for _ in range(VISITS_MAX):
        item = next(trail[-1][1], trail)
        kind = type(item)
        if item is trail:
            within.discard(trail.pop()[0])
            if not trail:
                return False
        elif kind in (list, tuple, set, frozenset, dict) and id(item) not in within:  # else repr() shows an ellipsis
            within.add(id(item))
            trail.append((id(item), iter(item.values() if kind is dict else item)))
        if len(trail) > limit:
            return True
    return False


def _head(obj, limit):
    """As much of a big builtin container as can show: repr() of the whole could take all memory."""
    kind = type(obj)
    if kind in (str, bytes, bytearray, list, tuple) and len(obj) > limit:
        return obj[: limit + 1]
    if kind in (dict, set, frozenset) and len(obj) > limit:
        import itertools

        some = itertools.islice(obj.items() if kind is dict else obj, limit + 1)
        return kind(some)
    return obj


def _size(obj):
    try:
        return " (a %s of length %d)" % (type_name(obj), len(obj))
    except BaseException:
        return ""


# Exceptions -------------------------------------------------------------------------------------------------------


def message(exc):
    """str(exc), bounded, whatever its __str__ does."""
    try:
        text = str(exc)
    except BaseException as e:
        return "<str() of the exception failed: %s>" % type_name(e)
    return cut_middle(_printable(text), MESSAGE_MAX)


def error(exc, file):
    """The error object of a done frame for the exception that ended the code."""
    return {"type": type_name(exc), "message": message(exc), "traceback": stack(exc, file)}


def stack(exc, file):
    """The traceback as the interpreter shows it, without the runner's own frames."""
    try:
        tb = from_code(exc.__traceback__, file)
        shown = traceback.TracebackException(type(exc), exc, _shorten(tb))
        _clean(shown, [CHAIN_MAX])
        if not shown.stack:
            text = "".join(shown.format_exception_only()) if _chainless(shown) else "".join(shown.format())
        else:
            text = "".join(shown.format())
    except BaseException as e:
        text = "%s: %s\n(its traceback could not be formatted: %s)\n" % (type_name(exc), message(exc), type_name(e))
    return cut_middle(_printable(text), TRACEBACK_MAX)


def _printable(text):
    return str.encode(text, "utf-8", "backslashreplace").decode()  # as above


def _chainless(shown):
    return not (shown.__cause__ or shown.__context__ or getattr(shown, "exceptions", None))


def from_code(tb, file):
    """The part of a traceback that begins in the code: what is above it called the code."""
    at = tb
    while at is not None and at.tb_frame.f_code.co_filename != file:
        at = at.tb_next
    return at


def _shorten(tb):
    """Takes the middle out of a very long stack."""
    links = []
    while tb is not None:
        links.append(tb)
        tb = tb.tb_next
    if len(links) > 2 * FRAMES_MAX:
        links[FRAMES_MAX - 1].tb_next = links[-FRAMES_MAX]
    return links[0] if links else None


def _clean(shown, left):
    """Removes the frames of the runner and of the mcp package: what happens inside them is not the code's affair."""
    if shown is None or left[0] <= 0:
        return
    left[0] -= 1
    shown.stack[:] = [f for f in shown.stack if not f.filename.startswith(HERE + os.sep)]
    _clean(shown.__cause__, left)
    _clean(shown.__context__, left)
    for inner in getattr(shown, "exceptions", None) or ():
        _clean(inner, left)
