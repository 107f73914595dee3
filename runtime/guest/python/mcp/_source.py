"""The source of a function together with what it needs of the code around it, so that it runs in a later run."""

import ast
import builtins
import inspect
import sys
import textwrap
import types

from . import _known, _state, _tools, errors

_CONSTANTS = (str, bytes, int, float, complex, bool, type(None), list, tuple, dict, set, frozenset)

_NO_SOURCE = "the source of %s is not known: define it in the code itself"


def of(thing, name=None):
    """(name, code, docstring) of a function, class or str of source."""
    if isinstance(thing, str):
        return _of_text(thing, name)
    saved = _tools.saved_as(thing)
    if saved:
        raise errors.ToolArgumentError("%s is saved already; to change it, define it in the code itself" % saved)
    if not isinstance(thing, (types.FunctionType, type)):
        kind = type(thing).__name__
        raise errors.ToolArgumentError("save_tool takes a function, a class or a str of source, not a %s" % kind)
    if name not in (None, thing.__name__):
        raise errors.ToolArgumentError("a function is saved under its own name %r; rename it, or give its source" % thing.__name__)
    if not thing.__name__.isidentifier():
        raise errors.ToolArgumentError("a lambda has no name to be saved under: write it as a def")
    if thing.__module__ not in sys.modules:
        raise errors.ToolArgumentError(_NO_SOURCE % thing.__name__)
    needs = _Needs(vars(sys.modules[thing.__module__]))
    needs.take(thing.__name__, thing)
    return thing.__name__, needs.code(), inspect.getdoc(thing)


def _of_text(code, name):
    if not name or not name.isidentifier():
        raise errors.ToolArgumentError("save_tool(source, name=...) needs the name that the source defines")
    try:
        tree = ast.parse(code)
    except SyntaxError as e:
        raise errors.ToolArgumentError("the source is no valid Python: %s" % e) from None
    return name, code, ast.get_docstring(tree)


class _Needs:
    """Collects, from one module's globals, what a function refers to."""

    def __init__(self, space):
        self.space = space
        self.imports = []
        self.parts = []
        self.seen = set()

    def code(self):
        return "\n\n".join(filter(None, ("\n".join(self.imports), *self.parts))) + "\n"

    def take(self, name, thing):
        """Adds the definition of name, after all that it needs."""
        if name in self.seen:
            return
        self.seen.add(name)
        saved = _tools.saved_as(thing)
        if saved is not None:
            self._take_saved(name, saved)
        elif isinstance(thing, types.ModuleType):
            alias = "" if thing.__name__ == name else " as " + name
            self.imports.append("import %s%s" % (thing.__name__, alias))
        elif isinstance(thing, (types.FunctionType, type)) and thing.__module__ == self.space.get("__name__"):
            text = self._source(name, thing)
            for other in _globals_of(text):
                self._need(other, name)
            self.parts.append(text)
        elif getattr(thing, "__module__", None) in sys.modules and getattr(thing, "__qualname__", "").isidentifier():
            self.imports.append("from %s import %s%s" % (
                thing.__module__, thing.__qualname__, "" if thing.__qualname__ == name else " as " + name))  # fmt: skip
        elif isinstance(thing, _CONSTANTS) and _is_literal(thing):
            self.parts.append("%s = %r" % (name, thing))
        else:
            raise errors.ToolArgumentError(
                "cannot save a tool that uses the global %r (a %s): make it an argument, or create it inside the function"
                % (name, type(thing).__name__)
            )

    def _take_saved(self, name, saved):
        """A saved tool is among the globals of any other, under its own name."""
        if saved not in _state.saved:
            raise errors.ToolArgumentError("the saved tool %s is not there any more: define it in the code itself" % saved)
        if saved != name:
            self.imports.append("from mcp.tools import %s as %s" % (saved, name))

    def _need(self, name, user):
        if name in _known.NAMES or name.startswith("mcp_") or name in self.seen:
            return
        if name in self.space:
            self.take(name, self.space[name])
        elif not hasattr(builtins, name):
            raise errors.ToolArgumentError("%s uses the name %r, which is not defined" % (user, name))

    @staticmethod
    def _source(name, thing):
        try:
            return textwrap.dedent(inspect.getsource(thing)).strip()
        except (OSError, TypeError):
            raise errors.ToolArgumentError(_NO_SOURCE % name) from None


def _is_literal(thing):
    try:
        return ast.literal_eval(repr(thing)) == thing
    except Exception:
        return False


def _globals_of(text):
    """The names that a definition takes from around it, in order."""
    import symtable

    found = {}

    def walk(table, top):
        for symbol in table.get_symbols():
            if symbol.is_global() or (top and symbol.is_referenced() and not symbol.is_assigned()):
                found[symbol.get_name()] = None
        for inner in table.get_children():
            walk(inner, False)

    walk(symtable.symtable(text, "<tool>", "exec"), True)
    return list(found)
