"""The code runs as a script runs."""

import os
import textwrap

from .harness import Case, Runner, run

CODE = textwrap.dedent


class Literals(Case):
    def test_A01_multiline_strings_are_untouched(self):
        self.good(
            CODE('''\
                import asyncio
                s = """one
                two
                  three"""
                await asyncio.sleep(0)
                print(s.split("\\n"))
                '''),
            "['one', 'two', '  three']\n",
        )

    def test_A31_future_import_and_top_level_await(self):
        self.good(
            CODE('''\
                """doc"""
                from __future__ import annotations
                import asyncio
                await asyncio.sleep(0)
                def f(x: NotDefined): return 1
                print(f(0), __doc__)
                '''),
            "1 doc\n",
        )

    def test_future_import_reaches_a_trailing_expression(self):
        ended = self.good("from __future__ import annotations\n(lambda: (yield))().__class__.__name__")
        self.assertEqual(ended.value, "'generator'")

    def test_bom_tabs_and_crlf(self):
        self.good("\ufeffif True:\r\n\tprint('x')\r\n", "x\n")

    def test_an_encoding_line_changes_nothing(self):
        self.good("# -*- coding: latin-1 -*-\nprint('ü€')\n", "ü€\n")

    def test_empty_and_comment_only(self):
        for code in ("", "\n", "# nothing\n", "pass"):
            self.assertIsNone(self.good(code, "").value)

    def test_null_character(self):
        ended = run("x = 1\0\n")
        self.assertIn("null", ended.error["message"])


class Module(Case):
    def test_it_is_a_real_main_module(self):
        ended = self.good(
            CODE("""\
                import sys, os, __main__, inspect
                def f(): pass
                print(__name__, __main__.f is f, sys.modules["__main__"].__dict__ is globals())
                print(__file__ == sys.argv[0], sys.argv[1:], os.getcwd() == os.path.dirname(__file__))
                print(sys.path[0] == os.getcwd(), __package__, __spec__)
                print(open(__file__).read().splitlines()[0])
                print(inspect.getsource(f), end="")
                """)
        )
        self.assertEqual(
            ended.stdout,
            "__main__ True True\nTrue [] True\nTrue None None\nimport sys, os, __main__, inspect\ndef f(): pass\n",
        )

    def test_modules_that_the_code_writes_can_be_imported(self):
        self.good('open("helper.py", "w").write("x = 41")\nimport helper\nprint(helper.x + 1)', "42\n")

    def test_the_directory_is_older_than_the_run(self):
        """Else import might not see a module that the code writes at once: it looks at the directory's time, which many
        kernels tell in ticks of some milliseconds."""
        with Runner() as runner:
            before = os.stat(runner.workspace).st_mtime_ns
            runner.start("import os\nos.stat('.').st_mtime_ns")
            self.assertEqual(runner.finish().value, str(before))

    def test_the_runner_is_not_among_the_modules(self):
        ended = self.good("import sys\nprint([m for m in sys.modules if 'thawpool' in m])")
        self.assertEqual(ended.stdout, "[]\n")

    def test_globals_hold_only_what_is_documented(self):
        ended = self.good("print(sorted(n for n in globals() if not n.startswith('__')))", servers=["fs"])
        names = """LOADED_MCP_SERVERS delete_memory get_memory_info list_memories load_memory mcp mcp_fs mcp_servers
            memory_exists save_memory save_tool update_memory""".split()
        self.assertEqual(ended.stdout, "%s\n" % names)

    def test_pickle_and_dataclasses_find_main(self):
        self.good(
            CODE("""\
                import pickle, dataclasses
                @dataclasses.dataclass
                class P:
                    x: int = 1
                print(pickle.loads(pickle.dumps(P(2))))
                """),
            "P(x=2)\n",
        )

    def test_unittest_main_finds_the_code(self):
        ended = run(
            CODE("""\
                import unittest
                class T(unittest.TestCase):
                    def test(self): self.assertEqual(1, 1)
                unittest.main()
                """)
        )
        self.assertIn("Ran 1 test", ended.stderr)
        self.assertEqual(ended.code, 0, ended)

    def test_random_state_differs_between_runs(self):
        code = "import random, uuid\nprint(random.random(), uuid.uuid4(), hash('x'))"
        one, two = run(code).stdout.split(), run(code).stdout.split()
        for a, b in zip(one, two):
            self.assertNotEqual(a, b)

    def test_environment_of_children(self):
        self.good(
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import sys; print(sys.flags.utf8_mode)'])", "1\n"
        )


class Values(Case):
    def test_trailing_expression(self):
        for code, value in (
            ("1 + 1", "2"),
            ("x = 5", None),
            ("None", None),
            ("print('x')", None),
            ("'a\\n'", "'a\\n'"),
            ("for i in range(3): i", None),
            ("x = 1\nx", "1"),
            ("import asyncio\nawait asyncio.sleep(0, 'v')", "'v'"),
            ("[await f() for f in ()]", "[]"),
            ("9007199254740993", "9007199254740993"),
        ):
            with self.subTest(code=code):
                self.assertEqual(self.good(code).value, value)

    def test_A27_coroutine_as_last_expression_is_awaited(self):
        ended = self.good("async def f():\n    return 7\nf()")
        self.assertEqual((ended.value, ended.notes, ended.stderr), ("7", [], ""))

    def test_task_as_last_expression_is_awaited(self):
        ended = self.good("import asyncio\nasync def f(): return 8\nawait asyncio.sleep(0)\nasyncio.create_task(f())")
        self.assertEqual(ended.value, "8")

    def test_value_is_cut(self):
        ended = self.good("'é' * 1000", value_max=100)
        self.assertLessEqual(len(ended.value.encode()), 100)
        self.assertTrue(ended.value.startswith("'éé") and ended.value.endswith("[cut]"), ended.value)
        self.assertIn("cut to 100 bytes (a str of length 1000)", ended.notes[0])

    def test_huge_builtin_values_are_not_spelt_out(self):
        for code in ("list(range(10**7))", "'x' * 10**8", "b'x' * 10**8", "dict.fromkeys(range(10**6))", "set(range(10**6))"):
            with self.subTest(code=code):
                ended = self.good(code)
                self.assertEqual(len(ended.value), 65536)
                self.assertIn("of length 10000", ended.notes[0])

    def test_repr_that_fails(self):
        for body, told in (
            ("raise ValueError('bad repr')", "ValueError: bad repr"),
            ("raise SystemExit(3)", "SystemExit: 3"),
            ("return 5", "TypeError"),
            ("return repr(self)", "nested too deeply"),
        ):
            with self.subTest(body=body):
                ended = self.good("class A:\n    def __repr__(self):\n        %s\nA()" % body)
                self.assertIsNone(ended.value)
                self.assertIn(told, ended.notes[0])

    def test_F17_deep_value(self):
        ended = self.good(
            CODE("""\
                d = x = []
                for _ in range(100000):
                    y = []; x.append(y); x = y
                print("[" * 200000)
                d
                """)
        )
        self.assertEqual(len(ended.stdout), 200001)
        self.assertIsNone(ended.value)
        self.assertIn("nested too deeply", ended.notes[0])

    def test_surrogate_in_value(self):
        self.assertEqual(self.good("'a\\ud800'").value, "'a\\ud800'")
        ended = self.good("class A:\n    def __repr__(self): return 'a\\udfff'\nA()")
        self.assertEqual(ended.value, "a\\udfff")
