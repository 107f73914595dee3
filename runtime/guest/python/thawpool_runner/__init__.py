"""What runs as the first process of a sandbox. Package guest (Go) documents the processes and the frames.

boot imports, forks and checks; parent is the first process's loop; child waits for a run and ends the process after it;
execute runs the code; report turns values and exceptions into bounded text; forking keeps multiprocessing usable.
"""

import os

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # /opt/thawpool inside an image
