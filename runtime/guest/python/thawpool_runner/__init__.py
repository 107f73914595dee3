"""What runs as the first process of a sandbox. Package guest (Go) documents the processes and the frames.

boot forks; parent is the first process's loop; child imports, waits for the run and ends the process after it;
execute runs the code; report turns values and exceptions into bounded text; forking keeps multiprocessing usable.
"""

import os

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # /opt/thawpool inside an image
