"""Event loops, exceptions, and code that breaks things."""

import sys
import textwrap

from .fakes import Host
from .harness import Case, run

CODE = textwrap.dedent


class Await(Case):
    def test_asyncio_run_without_top_level_await(self):
        self.good("import asyncio\nasync def f(): return 3\nprint(asyncio.run(f()))\nprint(asyncio.run(f()))", "3\n3\n")

    def test_asyncio_run_within_top_level_await(self):
        self.good(
            CODE("""\
                import asyncio
                from asyncio import run
                async def f(x):
                    await asyncio.sleep(0)
                    return x, await asyncio.gather(g(), g())
                async def g(): return asyncio.current_task() is not outer
                outer = asyncio.current_task()
                other = asyncio.create_task(f(1))
                print(asyncio.run(f(2)), run(f(3)))
                try:
                    asyncio.run(f())
                except TypeError:
                    print("type")
                print(asyncio.current_task() is outer, await other)
                """),
            "(2, [True, True]) (3, [True, True])\ntype\nTrue (1, [True, True])\n",
        )

    def test_exception_through_nested_run(self):
        ended = self.bad(
            "import asyncio\nasync def f(): 1/0\nawait asyncio.sleep(0)\nasyncio.run(f())", "ZeroDivisionError"
        )
        self.assertNotIn("thawpool", ended.traceback)

    def test_get_event_loop_as_in_a_script(self):
        code = "import asyncio\nasync def f(): return 3\nprint(asyncio.get_event_loop().run_until_complete(f()))"
        if sys.version_info < (3, 14):
            self.good(code, "3\n")
        else:  # it no longer makes a loop
            self.assertIn("use top-level await, or asyncio.run(...)", self.bad(code, "RuntimeError").notes[0])

    def test_run_until_complete_in_a_running_loop_is_explained(self):
        ended = run("import asyncio\nawait asyncio.sleep(0)\nasyncio.get_event_loop().run_until_complete(asyncio.sleep(0))")
        self.assertEqual(ended.error["type"], "RuntimeError")
        self.assertTrue(any("await the coroutine directly" in n for n in ended.notes), ended)

    def test_async_with_and_for_at_top_level(self):
        self.good(
            CODE("""\
                import asyncio, contextlib
                @contextlib.asynccontextmanager
                async def c():
                    yield 1
                async def g():
                    yield 2
                async with c() as x:
                    async for y in g():
                        print(x, y, [z async for z in g()])
                """),
            "1 2 [2]\n",
        )

    def test_tasks_that_are_left_are_told(self):
        ended = self.good("import asyncio\nt = asyncio.create_task(asyncio.sleep(60))\nawait asyncio.sleep(0)")
        self.assertIn("1 asyncio task(s)", ended.notes[0])

    def test_never_awaited_is_warned_of_as_by_the_interpreter(self):
        ended = self.good("async def f(): pass\nf()\nx = 1")
        self.assertIn("/main.py:2: RuntimeWarning: coroutine 'f' was never awaited", ended.stderr)
        self.assertEqual(ended.notes, ["f(...) was never awaited, so it did not run: write `await f(...)`"])

    def test_never_awaited_and_kept(self):
        for code in ("x = f()", "x = [f()]", "x = {1: f()}", "x = f()\nprint(x['a'])"):
            with self.subTest(code=code):
                ended = run("async def f(): pass\n" + code)
                self.assertIn("never awaited", ended.stderr)
                self.assertNotIn("thawpool", ended.stderr)
                self.assertTrue(any("write `await f(...)`" in n for n in ended.notes), ended)

    def test_never_awaited_where_warnings_are_errors(self):
        for code in ("f()", "x = f()"):
            with self.subTest(code=code):
                ended = run("import warnings\nwarnings.simplefilter('error')\nasync def f(): pass\n%s\nprint(1)" % code)
                self.assertEqual((ended.code, ended.stdout), (0, "1\n"), ended)
                self.assertTrue(any("write `await f(...)`" in n for n in ended.notes), ended)


class Advice(Case):
    def advised(self, text, code, kind, **options):
        self.assertIn(text, " ".join(self.bad(code, kind, **options).notes), code)

    def test_what_a_sandbox_has_not(self):
        self.advised("nosuch is not in the image", "import nosuch.deep", "ModuleNotFoundError")
        self.assertEqual(self.bad("raise ModuleNotFoundError('x', name='')", "ModuleNotFoundError").notes, [])
        self.advised("gets no input", "input('name? ')", "EOFError")

    def test_no_network(self):
        code = "import socket\ntry:\n    raise %s\nexcept OSError as e:\n    raise %s"
        for first in ("socket.gaierror(-3, 'Temporary failure in name resolution')", "OSError(101, 'Network is unreachable')"):
            self.advised("no network", code % (first, "RuntimeError('cannot fetch')"), "RuntimeError")
            self.advised("no network", code % (first, "RuntimeError('cannot fetch') from e"), "RuntimeError")
        self.assertEqual(self.bad("raise ConnectionRefusedError(111, 'refused')", "ConnectionRefusedError").notes, [])

    def test_a_result_where_asyncio_wants_a_coroutine(self):
        for call in ("gather(save_memory('a', 1), save_memory('b', 2))", "create_task(load_memory('a'))"):
            self.advised("asyncio.to_thread", "import asyncio\nawait asyncio.%s" % call, "TypeError", handlers=Host().handlers)

    def test_a_server_that_is_none(self):
        self.advised("mcp_nosuch is no server that can be called", "await mcp_nosuch.tool()", "NameError")
        self.assertEqual(self.bad("nosuch", "NameError").notes, [])

    def test_code_that_is_none(self):
        self.advised("Markdown fence", "```python\nprint(1)\n```", "SyntaxError")
        self.advised("without return", "x = 1\nreturn x", "SyntaxError")
        self.assertEqual(self.bad("x = ", "SyntaxError").notes, [])

    def test_task_without_a_loop(self):
        self.advised("use top-level await", "import asyncio\nasync def f(): pass\nasyncio.create_task(f())", "RuntimeError")


class Errors(Case):
    def test_A04_output_before_an_exception(self):
        ended = self.bad('print("step 1 done")\nraise ValueError("boom")', "ValueError")
        self.assertEqual(ended.stdout, "step 1 done\n")
        self.assertEqual(ended.stderr, "")
        self.assertEqual(ended.error["message"], "boom")

    def test_A25_traceback_is_the_interpreters(self):
        ended = self.bad("x = 1\ny = 0\nprint(x / y)  # third line\n", "ZeroDivisionError")
        lines = ended.traceback.splitlines()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertEqual(lines[1], '  File "%s", line 3, in <module>' % ended.file)
        self.assertEqual(lines[2], "    print(x / y)  # third line")
        self.assertEqual(lines[-1], "ZeroDivisionError: division by zero")

    def test_traceback_in_async_code_has_no_foreign_frames(self):
        ended = self.bad("import asyncio\nasync def f():\n    1 / 0\nawait f()\n", "ZeroDivisionError")
        self.assertEqual(ended.traceback.count("File"), 2, ended.traceback)
        self.assertIn("line 4, in <module>", ended.traceback)
        self.assertIn("line 3, in f", ended.traceback)

    def test_traceback_after_characters_that_end_no_line(self):
        for text in "\x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029 \r\n \r \n".split(" "):
            with self.subTest(text=text):
                ended = self.bad('x = """%s"""\n1 / 0\n' % text, "ZeroDivisionError")
                self.assertIn("in <module>\n    1 / 0\n", ended.traceback)

    def test_traceback_of_a_trailing_expression(self):
        self.assertIn("line 2, in <module>", self.bad("x = 1\n1 / 0", "ZeroDivisionError").traceback)

    def test_syntax_error_shows_line_and_caret(self):
        ended = self.bad("x = 1\nif x\n    y = 2\n", "SyntaxError")
        self.assertIn('File "%s", line 2' % ended.file, ended.traceback)
        self.assertIn("    if x\n", ended.traceback)
        self.assertIn("^", ended.traceback)
        self.assertNotIn("Traceback", ended.traceback)

    def test_indentation_and_too_deep_sources(self):
        self.bad("if 1:\nx\n", "IndentationError")
        self.assertIn(run("(" * 5000 + ")" * 5000).error["type"], ("SyntaxError", "MemoryError", "RecursionError"))
        self.assertIn(run("-" * 200000 + "1").error["type"], ("RecursionError", "MemoryError", "SyntaxError"))

    def test_A09_any_base_exception_is_a_result(self):
        self.bad("raise KeyboardInterrupt", "KeyboardInterrupt")
        self.bad("raise GeneratorExit", "GeneratorExit")
        self.bad("class Mine(BaseException): pass\nraise Mine('m')", "Mine")
        self.bad("import asyncio\nawait asyncio.sleep(0)\nraise KeyboardInterrupt", "KeyboardInterrupt")
        self.bad("import asyncio\nawait asyncio.sleep(0)\nraise asyncio.CancelledError", "CancelledError")

    def test_chained_exceptions(self):
        ended = self.bad("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e", "KeyError")
        self.assertIn("direct cause", ended.traceback)
        self.assertIn("line 2, in <module>", ended.traceback)
        self.assertIn("line 4, in <module>", ended.traceback)
        self.assertEqual(ended.error["message"], "'k'")

    if sys.version_info >= (3, 11):  # exception groups are as old as that

        def test_exception_groups(self):
            ended = self.bad(
                CODE("""\
                    import asyncio
                    async def f(): raise ValueError("inner")
                    async with asyncio.TaskGroup() as g:
                        g.create_task(f())
                        g.create_task(f())
                    """),
                "ExceptionGroup",
            )
            self.assertEqual(ended.traceback.count("ValueError: inner"), 2, ended.traceback)
            self.assertNotIn("thawpool", ended.traceback)

    def test_hostile_str(self):
        for body in ("raise SystemExit(9)", "return 5", "1 / 0", "raise KeyboardInterrupt"):
            with self.subTest(body=body):
                ended = self.bad("class E(Exception):\n    def __str__(self):\n        %s\nraise E" % body, "E")
                self.assertIn("str() of the exception failed", ended.error["message"])

    def test_hostile_exceptions(self):
        """Whatever the exception brings, there is a report of it, and no frame of the runner's in it."""
        strange = (
            "class S(str):\n    encode = __str__ = __len__ = __getitem__ = __format__ = lambda *a: 1 / 0\n"
            "class I(int):\n    __and__ = __le__ = __ge__ = __eq__ = lambda *a: 1 / 0\n"
            "class E(Exception):\n    def __init__(self, *a): self.__dict__.update(a[0] if a else {})\n"
        )
        for code, kind in (
            ("raise ModuleNotFoundError('x', name=5)", "ModuleNotFoundError"),
            ("raise ModuleNotFoundError('x', name='n' * 10**8)", "ModuleNotFoundError"),
            ("class F(E): __bool__ = __len__ = lambda s: 1 / 0\ntry:\n    raise F\nexcept F as f:\n    raise E from f", "E"),
            ("class F(FileNotFoundError): filename = property(lambda s: 1 / 0)\nraise F", "F"),
            ("class F(OSError): errno = property(lambda s: 1 / 0)\nraise F", "F"),
            ("class F(SystemExit): code = property(lambda s: 1 / 0)\nraise F('why')", "SystemExit"),
            ("class F(E):\n    def __str__(self): return S('text')\nraise F", "F"),
            ("F = type(S('F'), (E,), {})\nF.__name__ = S('F')\nraise F", "F"),
            ("import sys\ndel sys.excepthook\n1 / 0", "ZeroDivisionError"),
            ("import sys\ndel sys.__excepthook__\n1 / 0", "ZeroDivisionError"),
        ):
            with self.subTest(code=code):
                ended = self.bad(strange + code, kind)
                self.assertNotIn("thawpool", ended.error.get("traceback", ""))
                self.assertLess(sum(map(len, ended.notes)), 3000)
        ended = run(strange + "raise SystemExit(I(3))")
        self.assertEqual((ended.code, ended.error["message"]), (3, "exit status 3"))
        self.assertLess(len(run("raise type('x' * 10**8, (Exception,), {})").error["type"]), 1000)

    def test_a_hostile_repr(self):
        ended = self.good("class S(str):\n    encode = __str__ = lambda *a: 1 / 0\nclass A:\n    def __repr__(self): return S('text')\nA()")
        self.assertEqual((ended.value, ended.notes), ("text", []))

    def test_a_warning_that_cannot_be_shown(self):
        ended = self.good("import warnings\nwarnings.showwarning = lambda *a: 1 / 0\nasync def f(): pass\nx = f()")
        self.assertIn("write `await f(...)`", ended.notes[0])

    def test_huge_and_strange_messages(self):
        ended = self.bad("raise ValueError('x' * 10**8)", "ValueError")
        self.assertLess(len(ended.error["message"]), 9000)
        self.assertLess(len(ended.traceback), 34000)
        self.bad("raise ValueError('a\\ud800\\0')", "ValueError")
        self.bad("class M(type):\n    __name__ = property(lambda c: 1/0)\nclass E(Exception, metaclass=M): pass\nraise E", "E")

    def test_deep_recursion(self):
        ended = self.bad("def f(): f()\nf()", "RecursionError")
        self.assertLess(len(ended.traceback), 34000)
        self.assertIn("in <module>", ended.traceback)

    def test_very_long_stack(self):
        ended = self.bad(
            "import sys\nsys.setrecursionlimit(10**5)\ndef f(n):\n    if n: f(n - 1)\n    else: 1 / 0\nf(5000)",
            "ZeroDivisionError",
        )
        self.assertLess(len(ended.traceback), 34000)
        self.assertIn("in <module>", ended.traceback)
        self.assertTrue(ended.traceback.endswith("ZeroDivisionError: division by zero\n"))

    def test_exception_chain_without_end(self):
        ended = run(
            CODE("""\
                def deep(n):
                    try:
                        raise ValueError(n)
                    except ValueError:
                        if n: deep(n - 1)
                        raise
                deep(200)
                """)
        )
        self.assertEqual(ended.error["type"], "ValueError")
        self.assertLess(len(ended.traceback), 34000)

    def test_own_excepthook_is_called(self):
        ended = self.bad("import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0", "ZeroDivisionError")
        self.assertEqual(ended.stdout, "hook ZeroDivisionError\n")

    def test_own_excepthook_sees_the_code_only(self):
        ended = self.bad(
            "import sys, traceback\nsys.excepthook = lambda t, e, tb: (traceback.print_tb(tb), traceback.print_exception(e))\n1 / 0",
            "ZeroDivisionError",
        )
        self.assertEqual(ended.stderr.count("in <module>"), 2)
        self.assertNotIn("thawpool", ended.stderr)

    def test_error_in_an_imported_module_shows_its_frames(self):
        ended = self.bad('open("m.py", "w").write("def f():\\n    1/0\\n")\nimport m\nm.f()', "ZeroDivisionError")
        self.assertIn("m.py", ended.traceback)

    def test_compile_warnings_come_once(self):
        ended = self.good("x = 1\nif x is 1: pass\n'\\d'")
        self.assertEqual(ended.stderr.count("SyntaxWarning: "), 1 if sys.version_info < (3, 12) else 2, ended)


class Watched(Case):
    """A trace function that the code leaves set."""

    WATCH = CODE("""\
        import asyncio, atexit, sys
        async def f(): return 1
        seen = []
        def watch(frame, event, arg):
            if "thawpool_runner" in frame.f_code.co_filename:
                seen.append(frame.f_code.co_qualname)
                %s
            return watch
        atexit.register(lambda: print(seen))
        """)

    def test_the_runner_is_not_traced(self):
        ends = {"1": None, "1 / 0": "ZeroDivisionError", "await f()": None, "await f()\n1 / 0": "ZeroDivisionError", "sys.exit(3)": "SystemExit"}
        for end, kind in ends.items():
            for body in ("pass", "raise ValueError('from the tracer')"):
                with self.subTest(end=end, body=body):
                    ended = run(self.WATCH % body + "sys.settrace(watch)\n" + end)
                    self.assertEqual(ended.stdout, "[]\n", ended)
                    self.assertEqual(ended.error and ended.error["type"], kind)


class Sabotage(Case):
    """Code that breaks what the runner stands on breaks at most its own comfort."""

    def test_the_report_survives(self):
        for code in (
            "import sys\ndel sys.modules['__main__']",
            "import sys\nsys.modules.clear()",
            "import json\njson.dumps = json.loads = None",
            "import sys\nsys.setrecursionlimit(30)",
            "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = None",
            "globals()[5] = 1\nglobals().clear()",
        ):
            with self.subTest(code=code):
                self.bad(code + "\n1 / 0", "ZeroDivisionError")

    def test_a_lowered_recursion_limit_and_a_value(self):
        self.assertEqual(self.good("import sys\nsys.setrecursionlimit(40)\n[[1]]").value, "[[1]]")
