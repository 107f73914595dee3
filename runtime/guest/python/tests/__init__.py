"""Tests of the guest. They start real runners and speak frames with them over real pipes, as a host does:

python3 -m unittest discover -t .. -s tests   (from the directory above, with any CPython from 3.9 on)
"""
