"""Modules out of the bundle are what they are from their own files."""

import os
import shutil
import subprocess
import sys
import tempfile

from .harness import CACHE, ROOT, Case, Runner

MAKER = ROOT.parent.parent / "image" / "bundle.py"

# What can be seen of every module that the runner has loaded.
SEEN = """
import sys
for name, module in sorted(sys.modules.items()):
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        print(name, type(spec.loader), spec.loader is module.__loader__, spec.origin, spec.has_location, spec.parent,
              spec.cached, spec.submodule_search_locations, getattr(module, "__file__", None), getattr(module, "__path__", None),
              sorted(vars(module)))
"""


class Bundle(Case):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="guest-test-")
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(ROOT, self.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tests", "__pycache__"))
        self.bundle = os.path.join(self.root, "modules." + sys.implementation.cache_tag)
        places = {p: p for p in (self.root, os.path.dirname(os.__file__))}
        command = [sys.executable, "-I", "-B", "-S", "-X", "utf8", "-X", "pycache_prefix=" + CACHE, str(MAKER), self.root, self.bundle]
        subprocess.run(command + ["%s=%s" % p for p in places.items()], check=True)

    def test_modules_are_as_from_their_files(self):
        bundled = self.good(SEEN, root=self.root).stdout
        os.unlink(self.bundle)
        self.assertEqual(bundled, self.good(SEEN, root=self.root).stdout)

    def test_it_is_what_is_read(self):
        os.unlink(os.path.join(self.root, "mcp", "_tools.py"))
        self.good("print(1)", "1\n", root=self.root)
        os.unlink(self.bundle)
        with Runner(root=self.root) as runner:
            self.assertIsNone(runner.ready)

    def test_source_and_reload(self):
        self.good(
            """\
import asyncio, importlib, inspect, json, pickle
print(inspect.getsource(asyncio.run).startswith("def run("), importlib.reload(json) is json)
print(pickle.loads(pickle.dumps(inspect.Parameter)) is inspect.Parameter)
""",
            "True True\nTrue\n",
            root=self.root,
        )
