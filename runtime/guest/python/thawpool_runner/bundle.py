"""The child's imports out of one file, where the image has it: looking for a hundred modules, one by one, takes longer than
reading them at once. Afterwards each module is as if it had come from its own file.
"""

import marshal
import os
import sys

import _frozen_importlib
import _frozen_importlib_external

# Made with the image, by bundle.py of package image, for the interpreter whose tag is in the name.
FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "modules." + sys.implementation.cache_tag)


def import_child():
    """The module child."""
    finder = _Finder.open()
    if finder is not None:
        sys.meta_path.insert(0, finder)
    try:
        from . import child
    finally:
        if finder is not None:
            sys.meta_path.remove(finder)
    return child


class _Finder:
    """Finds what is in the file, and loads it."""

    def __init__(self, modules):
        self.modules = modules  # name -> (source file, bytecode file, whether it is a package, code)

    @classmethod
    def open(cls):
        try:
            with open(FILE, "rb") as f:
                return cls(marshal.loads(f.read()))
        except FileNotFoundError:
            return None

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        source, cached, package, _ = self.modules[name]
        spec = _frozen_importlib.ModuleSpec(name, self, origin=source, is_package=package)
        spec.has_location = True
        spec.cached = cached
        if package:
            spec.submodule_search_locations.append(os.path.dirname(source))
        return spec

    def create_module(self, spec):
        return None  # an ordinary one

    def exec_module(self, module):
        spec = module.__spec__
        code = self.modules.pop(spec.name)[3]
        spec.loader = module.__loader__ = _frozen_importlib_external.SourceFileLoader(spec.name, spec.origin)
        exec(code, module.__dict__)
