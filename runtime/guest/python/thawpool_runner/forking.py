"""multiprocessing for code that is not an importable module.

Workers are forked, also where newer Pythons would start a fork server that imports the main file again: a fork is faster
and has everything that the code has defined. Code that asks for another method gets it, unless it has a top-level
await: a worker could not import such a file, and a pool would start workers for ever.
"""

from . import hooks

ADVICE = (
    "code with a top-level await cannot be imported by worker processes of the spawn and forkserver methods: "
    "use multiprocessing.get_context('fork'), or put the await into a function and call asyncio.run"
)

_awaits = False


def with_await(yes):
    """Tells whether the code has a top-level await."""
    global _awaits
    _awaits = yes


def _fork_by_default(context):
    context._default_context._default_context = context._concrete_contexts["fork"]


def _refuse_awaits(spawn):
    plain = spawn.get_preparation_data

    def get_preparation_data(name):
        if _awaits:
            raise RuntimeError(ADVICE)
        return plain(name)

    spawn.get_preparation_data = get_preparation_data


def install():
    """Called once, before any code runs. Importing the two modules here would cost every sandbox what few need."""
    hooks.after_import("multiprocessing.context", _fork_by_default)
    hooks.after_import("multiprocessing.spawn", _refuse_awaits)
