"""Write the modules that the runner's child imports into one file: bundle.py GUEST OUTPUT HOST=IMAGE...

GUEST is the guest's directory here; each HOST=IMAGE is a directory here and where it will be in the image. The runner's
bundle module reads the file.
"""

import importlib.util
import marshal
import sys
from importlib.machinery import SourceFileLoader

guest, output, *places = sys.argv[1:]
sys.path.insert(0, guest)

import thawpool_runner.boot  # noqa: E402,F401  (what the parent has imported before it forks)

there = set(sys.modules)

import thawpool_runner.child  # noqa: E402,F401


def in_image(file):
    for here, image in (place.split("=") for place in places):
        if file.startswith(here + "/"):
            return image + file[len(here) :]
    raise SystemExit("%s is in none of %s" % (file, places))


modules = {}
for name, module in sys.modules.items():
    spec = getattr(module, "__spec__", None)
    if name in there or spec is None or type(spec.loader) is not SourceFileLoader:
        continue
    file = in_image(spec.origin)
    code = spec.loader.source_to_code(spec.loader.get_data(spec.origin), file)
    modules[name] = (file, importlib.util.cache_from_source(file), spec.submodule_search_locations is not None, code)

with open(output, "wb") as f:
    marshal.dump(modules, f)
