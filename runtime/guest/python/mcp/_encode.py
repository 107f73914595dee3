"""Arguments to JSON. What JSON has no form for gets the one that a server most likely expects, or a clear refusal."""

import re
from json import dumps  # the code may replace what is in the module

from . import errors

DEPTH_MAX = 255  # of arguments; the host takes frames one deeper
_PAIRS = bytes.maketrans(b"[]{}", b"()()")
_REST = bytes(set(range(256)) - set(b'[]{}"'))
_QUOTED = re.compile(b'"[^"]*"')


def encode(value):
    try:
        text = dumps(value, default=_default, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        text = None
    except (TypeError, ValueError) as e:
        raise errors.ToolArgumentError("the arguments cannot be sent as JSON: %s" % e) from None
    if text is None or _deeper(text, DEPTH_MAX):
        raise errors.ToolArgumentError("the arguments are nested too deeply: lists and dicts can be sent %d deep" % DEPTH_MAX)
    return text


def _deeper(text, most):
    """Whether arrays and objects in JSON of ASCII nest deeper than most. Megabytes of it are normal, so no loop goes over
    them: strings are taken out first, then the innermost pairs again and again."""
    if text.count("[") + text.count("{") <= most:
        return False
    marks = text.replace("\\\\", "").replace('\\"', "").encode().translate(_PAIRS, _REST)
    marks = _QUOTED.sub(b"", marks.replace(b'""', b""))
    for _ in range(most):
        if not marks:
            return False
        marks = marks.replace(b"()", b"")
    return bool(marks)


def _default(value):
    """Called by json for values of no JSON type."""
    kind = type(value)
    for test, change in _FORMS:
        if test(value):
            return change(value)
    raise TypeError("a %s.%s has no JSON form; convert it first" % (kind.__module__, kind.__qualname__))


def _has(*names):
    return lambda value: all(hasattr(type(value), n) for n in names)


def _bytes(value):
    raise TypeError("bytes have no JSON form; decode them, or send base64.b64encode(data).decode()")


# By what a value can do and not by its class, so that no module is imported for it.
_FORMS = (
    (lambda v: isinstance(v, (bytes, bytearray, memoryview)), _bytes),
    (lambda v: isinstance(v, (set, frozenset)), lambda v: sorted(v) if all(isinstance(i, str) for i in v) else list(v)),
    (_has("__fspath__"), lambda v: v.__fspath__()),
    (_has("model_dump"), lambda v: v.model_dump()),
    (_has("__dataclass_fields__"), lambda v: {n: getattr(v, n) for n in v.__dataclass_fields__}),
    (_has("isoformat"), lambda v: v.isoformat()),
    (_has("tolist"), lambda v: v.tolist()),
    (lambda v: type(v).__module__ in ("decimal", "uuid", "fractions", "ipaddress"), str),
    (lambda v: type(type(v)).__name__ in ("EnumType", "EnumMeta"), lambda v: v.value),
    (_has("keys", "__getitem__"), lambda v: {k: v[k] for k in v.keys()}),
    (_has("__next__"), list),
    (lambda v: isinstance(v, (type({}.values()), type({}.keys()), range)), list),
)
