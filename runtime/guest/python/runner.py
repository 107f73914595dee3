"""Starts the runner: python3 -I -B -X utf8 /opt/thawpool/runner.py

Isolated mode keeps this directory out of sys.path, so it is put there by hand. Everything else is in packages, whose
bytecode can be kept; a script is compiled at each start.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from thawpool_runner.boot import main  # noqa: E402  (needs the path above)

main()
