"""multiprocessing for code that is not an importable module.

Workers are forked, also where newer Pythons would start a fork server that imports the main file again: a fork is faster
and has everything that the code has defined. Code that asks for another method gets it, unless it has a top-level
await: a worker could not import such a file, and a pool would start workers for ever.
"""

import sys
from importlib.machinery import PathFinder

ADVICE = (
    "code with a top-level await cannot be imported by worker processes of the spawn and forkserver methods: "
    "use multiprocessing.get_context('fork'), or put the await into a function and call asyncio.run"
)

_awaits = False


def with_await(yes):
    """Tells whether the code has a top-level await."""
    global _awaits
    _awaits = yes


class _Hook:
    """Finds two modules of multiprocessing to change them once they are imported: importing them here would cost every
    sandbox a start-up for what few need."""

    def find_spec(self, name, path=None, target=None):
        after = _AFTER.get(name)
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


def _fork_by_default(context):
    context._default_context._default_context = context._concrete_contexts["fork"]


def _refuse_awaits(spawn):
    plain = spawn.get_preparation_data

    def get_preparation_data(name):
        if _awaits:
            raise RuntimeError(ADVICE)
        return plain(name)

    spawn.get_preparation_data = get_preparation_data


_AFTER = {"multiprocessing.context": _fork_by_default, "multiprocessing.spawn": _refuse_awaits}


def install():
    """Called once, before any code runs."""
    sys.meta_path.insert(0, _Hook())
    for name, after in _AFTER.items():
        if name in sys.modules:  # a preloaded module has imported it
            after(sys.modules[name])
