#!/usr/local/bin/python3 -IS
"""sleep NUMBER[smhd]...: the one other program that Python code commonly starts."""

import sys
import time

units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
try:
    seconds = sum(float(word.rstrip("smhd")) * units.get(word[-1:], 1) for word in sys.argv[1:])
    time.sleep(seconds)
except ValueError:
    sys.exit("sleep: invalid time interval")
