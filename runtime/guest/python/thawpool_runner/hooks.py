"""Changes to modules of the standard library that happen when, and only if, something imports them."""

import sys
from importlib.machinery import PathFinder

_after = {}  # module name -> function that is given the module once it has been executed


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        after = _after.get(name)
        if after is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        plain = spec.loader.exec_module

        def exec_module(module):
            plain(module)
            after(module)

        spec.loader.exec_module = exec_module
        return spec


def after_import(name, function):
    """Calls function with the module when it is imported, at once if it is already."""
    if not _after:
        sys.meta_path.insert(0, _Finder)
    _after[name] = function
    if sys.modules.get(name) is not None:
        function(sys.modules[name])
