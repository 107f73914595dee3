"""Functions that an earlier run saved."""

import types

from . import _channel, _lines, errors

_loaded = {}


def load(name):
    """The saved object, from the host and run once. A broken one is an error here, where it is used."""
    if name in _loaded:
        return _loaded[name]
    saved = _channel.link().call("saved.load", {"name": name})
    code, file = saved["code"], "<saved tool %s>" % name
    _lines.keep(file, code)
    module = types.ModuleType("mcp.tools." + name, saved.get("description") or None)
    module.__file__ = file
    from . import _names

    module.__dict__.update(_names.names())
    module.__dict__.pop(name, None)
    try:
        exec(compile(code, file, "exec", dont_inherit=True), module.__dict__)
        found = module.__dict__[name]
    except Exception as e:
        raise errors.MCPError("the saved tool %r is broken (%s: %s); save it again" % (name, type(e).__name__, e)) from e
    _loaded[name] = found
    return found


class Saved:
    """A saved tool under its own name among the globals, loaded when it is first used."""

    def __init__(self, name):
        self.__dict__["_name"] = name

    def __call__(self, *args, **kwargs):
        return load(self._name)(*args, **kwargs)

    def __getattr__(self, attribute):
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(load(self._name), attribute)

    @property
    def __wrapped__(self):
        return load(self._name)

    def __repr__(self):
        return "<saved tool %s>" % self._name

    def __reduce__(self):
        return Saved, (self._name,)


def saved_as(thing):
    """The name of the saved tool that this is, None when it is none."""
    if isinstance(thing, Saved):
        return thing._name
    module = getattr(thing, "__module__", None)  # not its own, where the saved name is one for something else
    return next((n for n, loaded in _loaded.items() if loaded is thing and module == "mcp.tools." + n), None)
