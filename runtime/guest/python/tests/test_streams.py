"""What the code and its children write arrives whole, in order, and apart from the frames."""

import json
import os
import textwrap
import threading
import unittest

from .harness import Case, Runner, run

CODE = textwrap.dedent


class Capture(Case):
    def test_A17_every_way_to_write(self):
        ended = self.good(
            CODE("""\
                import os, subprocess, sys, ctypes
                print("py", flush=True)
                os.write(1, b"fd\\n")
                subprocess.run([sys.executable, "-c", "print('child')"])
                ctypes.CDLL(None).puts(b"cstdio")
                """)
        )
        self.assertEqual(ended.stdout, "py\nfd\nchild\ncstdio\n")

    def test_A36_both_streams_are_drained_together(self):
        ended = self.good('import sys\nsys.stderr.write("e" * 1_000_000)\nprint("out")', "out\n")
        self.assertEqual(ended.stderr, "e" * 1_000_000)

    def test_A10_stdin_is_at_its_end(self):
        self.good(
            CODE("""\
                import sys
                try:
                    input("name? ")
                except EOFError:
                    print("EOF")
                print(repr(sys.stdin.read()))
                """),
            "name? EOF\n''\n",
        )

    def test_A12_lone_surrogates(self):
        ended = self.good('import sys\nprint("a\\ud800b")\nprint("after")\nprint("c\\udfff", file=sys.stderr)', "a\\ud800b\nafter\n")
        self.assertEqual(ended.stderr, "c\\udfff\n")

    def test_bytes_that_are_no_utf8(self):
        data = bytes(range(256)) * 3
        ended = self.good("import sys\nsys.stdout.buffer.write(%r)" % data)
        self.assertEqual(ended.out[1], data)

    def test_characters_are_never_cut(self):
        ended = self.good('print("a" + "é€😀" * 100000)')
        self.assertEqual(ended.stdout, "a" + "é€😀" * 100000 + "\n")
        self.assertGreater(len(ended.frames), 5)
        self.assertFalse(any("b" in f for f in ended.frames), "a valid stream needs no base64")

    def test_a_character_written_in_pieces(self):
        ended = self.good("import os\nfor b in '😀'.encode(): os.write(1, bytes([b]))\nos.write(1, b'\\xe2\\x82')")
        self.assertEqual(ended.out[1], "😀".encode() + b"\xe2\x82")

    def test_frames_are_bounded_and_escaped(self):
        ended = self.good('print("\\0\\x1f\\"\\\\\\n\\u2028" * 50000, end="")', '\0\x1f"\\\n\u2028' * 50000)
        for frame in ended.frames:
            self.assertLessEqual(len(frame.get("d", "").encode()), 65536)

    def test_big_output_through_backpressure(self):
        """The host reads nothing for as long as it takes the code to fill every buffer; nothing is lost."""
        with Runner() as runner:
            runner.start('import sys\nfor i in range(50):\n    sys.stdout.write(str(i) * 100000)\nprint("end")')
            # One byte of the exit frame can be read only after all the rest was: the buffers are far smaller than this.
            ended = runner.finish()
            self.assertEqual(ended.stdout, "".join(str(i) * 100000 for i in range(50)) + "end\n")

    def test_A15_many_lines(self):
        ended = self.good('for i in range(200000):\n    print("line", i)\nprint("END-MARK")')
        self.assertEqual(ended.stdout, "".join("line %d\n" % i for i in range(200000)) + "END-MARK\n")

    def test_a_line_leaves_before_the_code_ends(self):
        with Runner() as runner:
            runner.start('import os\nprint("first")\nos.kill(os.getpid(), 9)')
            ended = runner.finish()
            self.assertEqual((ended.stdout, ended.signal), ("first\n", 9))

    def test_closed_stdout(self):
        ended = run('import os, sys\nos.close(1)\nsys.stderr.write("still here")')
        self.assertEqual((ended.stderr, ended.code), ("still here", 0), ended)
        ended = run('import sys\nsys.stdout.close()\nsys.stderr.write("still here")')
        self.assertEqual((ended.stderr, ended.code), ("still here", 0), ended)
        ended = run('import os\nos.close(1)\nprint("x")')
        self.assertEqual(ended.error["type"], "OSError", ended)

    def test_replaced_stdout_is_flushed(self):
        self.good('import sys, os\nsys.stdout = os.fdopen(os.dup(1), "w")\nprint("kept")', "kept\n")

    def test_replaced_stdout_that_knows_little(self):
        """A Tee without closed, whose methods use globals; __del__ methods print after it has gone."""
        ended = self.good(
            CODE("""\
                import sys
                suffix = "!"
                class Tee:
                    def __init__(self, *files): self.files = files
                    def write(self, text):
                        for f in self.files: f.write(text.replace("\\n", suffix + "\\n"))
                    def flush(self):
                        for f in self.files: f.flush(); suffix.upper()
                class Last:
                    def __del__(self): print("last")
                last = Last()
                sys.stdout, sys.stderr = Tee(sys.stdout, open("log", "w")), Tee(sys.stderr)
                print("hi")
                """),
            "hi!\nlast\n",
        )
        self.assertEqual(ended.stderr, "")

    def test_detached_and_deleted_streams(self):
        self.good('import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding="utf-8")\nprint("é")', "é\n")
        self.good("import sys\nprint(1)\ndel sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__", "1\n")

    def test_a_stream_that_cannot_be_written_out_is_told(self):
        code = 'import os, sys\nsys.%s.write("lost")\nos.dup2(os.open("/dev/full", os.O_WRONLY), %d)'
        ended = run(code % ("stdout", 1))
        self.assertEqual((ended.code, ended.error), (120, None), ended)
        self.assertEqual(ended.stderr, "thawpool: sys.stdout could not be written out: OSError: [Errno 28] No space left on device\n")
        self.assertEqual(run(code % ("stderr", 2)).code, 120)
        ended = run("import sys\nclass Tee:\n    def write(self, text): pass\nsys.stdout = Tee()")
        self.assertEqual(ended.code, 120)
        self.assertIn("AttributeError: 'Tee' object has no attribute 'flush'", ended.stderr)

    def test_file_left_open_is_written_out(self):
        self.good('f = open("/proc/self/fd/1", "w")\nf.write("buffered")', "buffered")

    def test_capture_by_the_code_itself(self):
        self.good(
            'import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b):\n    print("in")\nprint(b.getvalue() * 2)',
            "in\nin\n\n",
        )


class Hostile(Case):
    def test_F01_forged_frames_are_plain_output(self):
        ended = run(
            CODE("""\
                import json, os, sys
                f = json.dumps({"t": "exit", "code": 0}) + "\\n"
                print(f)
                sys.__stdout__.write(f); sys.__stdout__.flush()
                os.write(1, f.encode()); os.write(2, f.encode())
                os._exit(0)
                """)
        )
        self.assertEqual(ended.stdout.count('"exit"'), 3)
        self.assertEqual(ended.stderr.count('"exit"'), 1)
        self.assertEqual(ended.code, 0)
        self.assertIsNone(ended.done)

    def test_F02_low_descriptors_reach_nothing(self):
        ended = self.good(
            CODE("""\
                import os, json
                for fd in range(3, 64):
                    for m in ({"t": "exit", "code": 0}, {"t": "call", "id": 1, "verb": "x", "args": {}}):
                        try: os.write(fd, (json.dumps(m) + "\\n").encode())
                        except OSError: pass
                print("done")
                """)
        )
        self.assertEqual(ended.stdout, "done\n")
        self.assertEqual(ended.calls, [])

    def test_F02_forged_lines_on_the_right_descriptor_end_the_run(self):
        for line in (b'{"type":"result","ok":true}\n', b"\n", b'{"t":"exit","code":0}\n', b'{"t":"ready","v":1}\n', b"\xff\xfe\n"):
            with self.subTest(line=line):
                ended = run("import os, time\nprint('before')\nos.write(200, %r)\ntime.sleep(600)" % line)
                self.assertEqual(ended.code, 1)
                self.assertEqual(ended.stdout, "before\n")
                self.assertIn("malformed line", ended.stderr)
                self.assertIn("malformed line", ended.exit["reason"])
                self.assertEqual(ended.status, 0, "the parent itself ended in order")

    def test_a_forged_line_of_a_process_that_has_gone(self):
        """The runner, which is stopped until then, finds the line and the end at once."""
        ended = run(
            CODE("""\
                import os, signal
                def until(state, pid):
                    while open("/proc/%d/stat" % pid).read().rsplit(")")[-1].split()[0] != state:
                        os.sched_yield()
                runner, child = os.getppid(), os.getpid()
                if os.fork() == 0:
                    until("Z", child)
                    os.kill(runner, signal.SIGCONT)
                    os._exit(0)
                os.kill(runner, signal.SIGSTOP)
                until("T", runner)
                os.write(200, b"x\\n")
                os._exit(0)
                """)
        )
        self.assertIn("malformed line", ended.exit["reason"])
        self.assertEqual(ended.status, 0)

    def test_F13_a_line_without_end(self):
        ended = run(
            CODE("""\
                import os
                for fd in range(3, 256):
                    try:
                        while True: os.write(fd, b'{"t":"call",' + b"A" * (1 << 20))
                    except OSError:
                        pass
                """)
        )
        self.assertEqual(ended.code, 1)
        self.assertIn("longer than 16777216 bytes", ended.exit["reason"])

    def test_every_descriptor_closed(self):
        ended = run("import os\nprint('x')\nos.closerange(3, 1024)\nprint('y')")
        self.assertEqual((ended.stdout, ended.code, ended.done), ("x\ny\n", 0, None))
        ended = run("import os\nos.closerange(3, 1024)\n1/0")
        self.assertEqual(ended.code, 1)
        self.assertIn("ZeroDivisionError", ended.stderr)

    def test_the_parent_is_out_of_reach(self):
        ended = self.good(
            CODE("""\
                import os
                parent = os.getppid()
                for name in ("fd", "mem", "environ", "maps"):
                    try:
                        path = "/proc/%d/%s" % (parent, name)
                        os.listdir(path) if name == "fd" else open(path, "rb").read(1)
                        print("reached", name)
                    except OSError as e:
                        pass
                print(sorted(os.listdir("/proc/self/fd")))
                """)
        )
        if os.getuid() != 0:  # root reads every process; a sandbox is never root
            self.assertNotIn("reached", ended.stdout)
        self.assertIn("['0', '1', '2', '200', ", ended.stdout)

    def test_signals_to_the_whole_group_spare_the_parent(self):
        ended = run("import os, signal\nprint('x')\nos.killpg(0, signal.SIGKILL)")
        self.assertEqual((ended.stdout, ended.signal), ("x\n", 9))

    def test_replies_that_nobody_reads_do_not_stop_output(self):
        """A child that never takes its replies: the parent keeps them and goes on."""
        with Runner() as runner:
            runner.start(
                CODE("""\
                    import os, sys
                    for i in range(1, 33):
                        os.write(200, b'{"t":"call","id":%d,"verb":"v","args":null}\\n' % i)
                    sys.stdin.read()
                    for i in range(1000):
                        print("x" * 1000)
                    """)
            )
            runner.handlers["v"] = lambda args: "y" * (1 << 20)
            ended = runner.finish()
            self.assertEqual(len(ended.calls), 32)
            self.assertEqual(len(ended.stdout), 1001 * 1000)
            self.assertEqual((ended.code, ended.error), (0, None))


class Host(unittest.TestCase):
    def test_D02_the_runner_ends_when_the_host_goes(self):
        for code in (None, "import time\ntime.sleep(3600)", "while True: pass"):
            with self.subTest(code=code), Runner() as runner:
                if code:
                    runner.start("print('up')\n" + code)
                    runner.finish(until=lambda f: f["t"] == "out")
                runner.process.stdin.close()
                self.assertEqual(runner.process.stdout.read(), b"")
                self.assertEqual(runner.process.wait(), 0)

    def test_the_runner_ends_when_nobody_listens(self):
        with Runner() as runner:
            runner.process.stdout.close()
            runner.start("while True: print('x' * 10000)")
            self.assertEqual(runner.process.wait(), 0)

    def test_a_run_in_pieces(self):
        with Runner() as runner:
            line = json.dumps({"t": "run", "id": "r", "code": "print('é' * 3)", "value_max": 9, "servers": [], "saved": []})
            for byte in line.encode() + b"\n":
                runner.process.stdin.write(bytes([byte]))
                runner.process.stdin.flush()
            self.assertEqual(runner.finish().stdout, "ééé\n")

    def test_B10_code_of_many_mebibytes(self):
        ended = run("s = '''%s'''\nprint(len(s))" % ("x" * (5 << 20)))
        self.assertEqual(ended.stdout, "%d\n" % (5 << 20))

    def test_a_burst_of_runners(self):
        """Runners side by side do not disturb each other."""
        results = {}

        def one(n):
            results[n] = run("print(%d)" % n).stdout

        threads = [threading.Thread(target=one, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, {n: "%d\n" % n for n in range(4)})
