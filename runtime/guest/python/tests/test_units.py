"""Parts that need no process."""

import base64
import json
import os
import sys
import types
import unittest
from unittest import mock

from mcp import _encode, _results
from thawpool_runner import advice, execute, notes, output, report


class Utf8(unittest.TestCase):
    def test_whole_never_cuts_a_character(self):
        text = "aé€😀\x7f\u07ff\u0800\uffff\U0010ffff".encode()
        for n in range(len(text) + 1):
            kept = output.whole(text[:n])
            text[:kept].decode()
            self.assertLess(n - kept, 4)
            if kept < n:
                with self.assertRaises(UnicodeDecodeError):
                    text[kept:n].decode()

    def test_whole_does_not_wait_for_what_cannot_become_valid(self):
        for data in (b"\xff", b"a\x80", b"\x80\x80\x80\x80", b"\xc0", b"\xf5", b"\xe2\x82\xac\x80"):
            self.assertEqual(output.whole(data), len(data), data)

    def test_frames_of_any_split_give_the_bytes_back(self):
        data = "é😀".encode() * 3 + b"\xff\xfe" + "€".encode() + b"\xf0\x9f"
        for a in range(len(data)):
            for b in range(a, len(data)):
                out = output.Output(0, 1)
                got = b""
                for piece in (data[:a], data[a:b], data[b:], b""):
                    if not piece and piece is not data[:0]:
                        continue
                    frame = out.frame(piece) if piece else None
                    got += taken(frame)
                got += taken(out.frame(b""))
                self.assertEqual(got, data)


def taken(frame):
    if frame is None:
        return b""
    frame = json.loads(frame)
    return frame["d"].encode() if "d" in frame else base64.b64decode(frame["b"])


class Reports(unittest.TestCase):
    def test_cut_middle(self):
        self.assertEqual(report.cut_middle("abc", 3), "abc")
        cut = report.cut_middle("a" * 100 + "b" * 100, 30)
        self.assertTrue(cut.startswith("a" * 20 + "\n... [170 characters left out] ...\n") and cut.endswith("b" * 10), cut)

    def test_depth(self):
        deep = []
        for _ in range(2000):
            deep = {"a": [deep]}
        self.assertTrue(report._depth_over(deep, 1000))
        self.assertFalse(report._depth_over([[[]]] * 10**6, 1000))

    def test_a_value_that_holds_itself_is_shown(self):
        loop = [1]
        loop.append(loop)
        self.assertEqual(report.value(loop, 100), ("[1, [...]]", None))


class Nesting(unittest.TestCase):
    def test_nesting_of_json_is_what_a_parser_finds(self):
        random = __import__("random").Random(1)

        def value(depth):
            kind = random.randrange(4) if depth else 3
            if kind < 2:
                return [value(depth - 1) for _ in range(random.randrange(4))]
            if kind < 3:
                return {text(): value(depth - 1) for _ in range(random.randrange(4))}
            return text()

        def text():
            return "".join(random.choices('[]{}"\\\n,:aé', k=random.randrange(8)))

        def depth(v):
            inner = v.values() if isinstance(v, dict) else v if isinstance(v, list) else None
            return 0 if inner is None else 1 + max(map(depth, inner), default=0)

        for _ in range(2000):
            v = value(6)
            most = random.randrange(7)
            self.assertEqual(_encode._deeper(json.dumps(v, separators=(",", ":")), most), depth(v) > most, v)


class Shell(unittest.TestCase):
    def test_a_system_in_vain_is_told_of(self):
        for status, shell, told in ((127 << 8, False, [advice.NO_SHELL]), (127 << 8, True, []), (0, False, [])):
            with self.subTest(status=status, shell=shell), mock.patch("os.path.exists", lambda path: shell):
                kept = notes.Notes()
                with mock.patch("os.system", lambda command: status), kept:
                    self.assertEqual(os.system("ls"), status)
                self.assertEqual(kept.texts, told)
        self.assertEqual(os.system.__module__, "posix")


class Reseed(unittest.TestCase):
    def test_numpy_is_reseeded_where_it_was_preloaded(self):
        seeded = []
        fake = types.SimpleNamespace(seed=lambda: seeded.append(1))
        with mock.patch.dict(sys.modules, {"numpy.random": fake}):
            execute.reseed()
        self.assertEqual(seeded, [1])


class Unwrap(unittest.TestCase):
    def test_odd_results(self):
        for result, value in (
            (None, None),
            ("x", "x"),
            ({}, {}),
            ({"content": None}, None),
            ({"content": "x"}, "x"),
            ({"content": [1, None]}, [1, None]),
            ({"content": [{"type": "text"}]}, ""),
            ({"content": [], "structuredContent": {"result": 1, "x": 2}, "_meta": {"thawpool/wrapped": True}}, {"result": 1, "x": 2}),
            ({"content": [], "structuredContent": []}, []),
            ({"content": [], "structuredContent": {}, "_meta": {"fastmcp": 5}}, {}),
        ):
            self.assertEqual(_results.unwrap(result), value, result)

    def test_broken_media(self):
        block = _results.block({"type": "image", "data": "***", "mimeType": "image/png"})
        self.assertEqual(block.data, b"")
        self.assertEqual(_results.block({"type": "image", "data": "a"}).mime_type, None)
