"""Errors of calls, and the objects that stand for servers and tools."""

import json
import textwrap

from .fakes import SERVERS, TOOLS, Host
from .harness import LATER, Case, HostError, Runner, run

CODE = textwrap.dedent


def sent(ended):
    return [args for verb, args in ended.calls if verb == "tools.call"]


class Errors(Case):
    def run_with(self, code, **options):
        return run(CODE(code), handlers=Host().handlers, servers=SERVERS, **options)

    def test_C17_tool_errors_can_be_caught(self):
        ended = self.run_with(
            """\
            import mcp
            from mcp import MCPError, runtime
            for kind in (Exception, RuntimeError, MCPError, mcp.MCPError, runtime.MCPError):
                try:
                    await mcp_fs.fails()
                except kind as e:
                    print(type(e).__name__, e)
            """
        )
        self.assertEqual(ended.stdout, "MCPError quota\n" * 5, ended)

    def test_an_uncaught_one_shows_the_codes_own_line_only(self):
        ended = self.run_with("x = 1\nawait mcp_fs.fails()\n")
        self.assertEqual(ended.error["type"], "MCPError")
        self.assertEqual(ended.traceback.count("File "), 1, ended.traceback)
        self.assertIn("line 2, in <module>", ended.traceback)
        self.assertTrue(ended.traceback.endswith("MCPError: quota\n"), ended.traceback)

    def test_kinds(self):
        ended = self.run_with(
            """\
            from mcp import runtime, UnknownToolError, UnknownServerError, ToolArgumentError
            for call, kind in (
                (lambda: mcp_fs.read_fil(path="x"), UnknownToolError),
                (lambda: mcp_fs.misspelt(pth="x"), ToolArgumentError),
                (lambda: mcp_fs.misspelt(pth="x"), TypeError),
                (lambda: runtime.query_tool_docs("nope"), UnknownServerError),
                (lambda: runtime.query_tool_docs("nope"), KeyError),
                (lambda: runtime.call_tool("nope", "x"), UnknownServerError),
            ):
                try:
                    await call()
                except kind as e:
                    print(type(e).__name__, e)
            for name in ("nope", "broken", 3):
                try:
                    mcp_servers[name]
                except KeyError as e:
                    print(e)
            """
        )
        self.assertEqual(
            ended.stdout,
            "UnknownToolError fs has no tool 'read_fil'; nearest: read_file\n"
            + "ToolArgumentError no argument 'pth'; did you mean path? read_file(path: str)\n" * 2
            + "UnknownServerError no server 'nope'\n" * 3
            + "no server 'nope'\n"
            + 'server "broken" is turned off: field "env.T" needs the variable T, which is not set\n'
            + "no server 3\n",
            ended,
        )

    def test_an_unknown_server_without_a_host_to_ask(self):
        ended = run("try:\n    mcp_servers['nope']\nexcept KeyError as e:\n    print(e)", servers=["fs"])
        self.assertEqual(ended.stdout, "no server is named 'nope' in this run; there are: fs\n", ended)

    def test_every_kind_of_the_contract(self):
        kinds = """MCPError UnknownServerError UnknownToolError ToolArgumentError PolicyError TimeoutError KeyError ValueError
            VersionConflict Novel""".split()
        for kind in kinds:
            with self.subTest(kind=kind):

                def refuse(args, kind=kind):
                    raise HostError(kind, "why")

                ended = run(
                    "import mcp, builtins\ntry:\n    await mcp_fs.x()\nexcept mcp.MCPError as e:\n"
                    "    print(type(e).__name__, e, isinstance(e, getattr(builtins, %r, Exception)))" % kind,
                    handlers={"tools.call": refuse},
                    servers=["fs"],
                )
                self.assertEqual(ended.stdout, "%s why True\n" % kind.replace("Novel", "MCPError"), ended)

    def test_unknown_names_when_importing(self):
        ended = self.run_with("from mcp.servers.nope import x")
        self.assertEqual(ended.error["type"], "ModuleNotFoundError")
        self.assertIn("there are: Web_Fetch, fs", ended.error["message"])
        self.assertIn("there are: Web_Fetch, fs", self.run_with("import mcp\nmcp.servers.nope").error["message"])

    def test_answers_that_cannot_be_decoded(self):
        with Runner(handlers={}) as runner:

            def deep(runner, frame):
                with runner.lock:
                    line = '{"t":"reply","id":%d,"value":%s%s}\n' % (frame["id"], "[" * 200000, "]" * 200000)
                    runner.process.stdin.write(line.encode())
                    runner.process.stdin.flush()
                return LATER

            deep.wants_frame = True
            runner.handlers["tools.call"] = deep
            runner.start("try:\n    await mcp_fs.x()\nexcept Exception as e:\n    print(type(e).__name__)", servers=["fs"])
            self.assertEqual(runner.finish().stdout, "MCPError\n")

    def test_replies_in_any_json_and_to_nobody(self):
        with Runner() as runner:

            def spaced(runner, frame):
                with runner.lock:
                    for line in ("", "junk", "[]", '{"t":"reply","id":99,"value":0}', '{"t":"other","id":1}'):
                        runner.process.stdin.write(line.encode() + b"\n")
                    reply = {"value": {"content": []}, "id": frame["id"], "t": "reply"}
                    runner.process.stdin.write(json.dumps(reply).encode() + b"\n")
                    runner.process.stdin.flush()
                return LATER

            spaced.wants_frame = True
            runner.handlers["tools.call"] = spaced
            runner.start("print(await mcp_fs.x())", servers=["fs"])
            self.assertEqual(runner.finish().stdout, "None\n")

    def test_forgotten_await_is_told(self):
        for code in (
            "mcp_fs.read_file(path='x')\nprint(1)",
            "r = mcp_fs.read_file(path='x')\nprint(1)",
            "r = mcp_fs.read_file(path='x')\nprint(1)\nprint(r['a'])",
            "for x in mcp_fs.read_file(path='x'): pass",
        ):
            with self.subTest(code=code):
                ended = self.run_with(code)
                self.assertIn("coroutine 'mcp_fs.read_file' was never awaited", ended.stderr)
                self.assertTrue(any("`await mcp_fs.read_file(...)`" in n for n in ended.notes), ended.notes)
                self.assertEqual(ended.calls, [])

    def test_host_gone_in_the_middle_of_a_call(self):
        """The line to the host closes under a waiting call: an error, not a hang."""
        ended = self.run_with("import os\nos.close(200)\nawait mcp_fs.read_file(path='x')")
        self.assertEqual(ended.done, None)
        self.assertIn("MCPError: the connection to the host is closed", ended.stderr)


class Proxies(Case):
    def test_C14_looking_never_calls(self):
        ended = self.good(
            CODE("""\
                import copy, pickle, inspect
                t = mcp_fs.read_file
                print(repr(mcp_fs)[:14], repr(t)[:19], str(t) == repr(t))
                for x in (mcp_fs, t, mcp_fs["two words"], mcp_fs["a/b"]):
                    copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), hash(x), bool(x), x == x, dir(x)
                    hasattr(x, "__len__"), hasattr(x, "__iter__"), hasattr(x, "_repr_html_"), callable(x)
                print(hasattr(mcp_fs, "__fspath__"), hasattr(mcp_fs, "_x"), hasattr(mcp_fs, "anything"))
                print(mcp_fs.mro, mcp_fs.class_)
                print(t.__name__, mcp_fs["a b"].__name__, inspect.isawaitable(mcp_fs))
                print(mcp_servers, LOADED_MCP_SERVERS)
                mcp_fs
                """),
            servers=SERVERS,
        )
        self.assertEqual(ended.calls, [])
        self.assertIn("<MCP server fs", ended.stdout)
        self.assertIn("False False True\n", ended.stdout)
        self.assertIn("mcp_fs.read_file mcp_fs['a b'] False\n", ended.stdout)

    def test_C14_odd_names_are_reached(self):
        ended = self.good(
            CODE("""\
                await mcp_fs.class_(a=1)
                await mcp_fs["class"](a=1)
                await mcp_fs["__init__"]()
                await mcp_fs["two words"]()
                await mcp_fs.print()
                """),
            servers=["fs"],
            handlers={"tools.call": lambda a: {"content": []}},
        )
        self.assertEqual([c["tool"] for c in sent(ended)], ["class_", "class", "__init__", "two words", "print"])

    def test_help_shows_the_signature(self):
        ended = self.good("help(mcp_fs.read_file)", servers=SERVERS, handlers=Host().handlers)
        self.assertIn("async def read_file(path: str) -> str", ended.stdout)
        self.assertIn("Read a file", ended.stdout)
        ended = self.good("help(mcp_fs.nope)\nprint(1)", servers=SERVERS, handlers=Host().handlers)
        self.assertIn("no tool 'nope'", ended.stdout)

    def test_tools_cannot_be_replaced(self):
        self.bad("mcp_fs.read_file = 1", "AttributeError", servers=["fs"])

    def test_names_of_all_tools(self):
        self.good(
            "print([t.alias for t in await mcp_fs.list_tools()], mcp_fs.name, mcp_fs.alias)",
            "%r fs fs\n" % [t[0] for t in TOOLS["fs"]],
            servers=SERVERS,
            handlers=Host().handlers,
        )
