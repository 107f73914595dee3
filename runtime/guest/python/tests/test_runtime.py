"""mcp.runtime: discovery, memories, saved tools; and code written for other hosts of this pattern."""

import textwrap

from .fakes import SERVERS, Host
from .harness import Case, run

CODE = textwrap.dedent


class Discovery(Case):
    def call(self, code, stdout=None, host=None):
        return self.good(CODE(code), stdout, handlers=(host or Host()).handlers, servers=SERVERS)

    def test_snippets_written_for_the_reference_run(self):
        ended = self.call(
            """\
            from mcp import runtime

            print("Discovered:", runtime.discovered_servers())
            print("Cached servers:", runtime.list_servers_sync())
            print("Loaded metadata:", runtime.list_loaded_server_metadata())
            print("Selectable via RPC:", await runtime.list_servers())

            loaded = runtime.list_loaded_server_metadata()
            if loaded:
              first = runtime.describe_server(loaded[0]["name"])
              for tool in first["tools"]:
                print(tool["alias"], "->", tool.get("description", ""))

            if loaded:
              summaries = await runtime.query_tool_docs(loaded[0]["name"])
              detailed = await runtime.query_tool_docs(
                loaded[0]["name"],
                tool=summaries[0]["toolAlias"],
                detail="full",
              )
              print("Summaries:", len(summaries))
              print("Cached tools:", [t["name"] for t in runtime.list_tools_sync(loaded[0]["name"])])
              print("Detailed doc:", detailed["inputSchema"])

            results = await runtime.search_tool_docs("calendar events", limit=1)
            for result in results:
              print(result["server"], result["tool"], result.get("description", ""))

            print("Capability summary:", runtime.capability_summary())
            print("Docs from cache:", len(runtime.query_tool_docs_sync(loaded[0]["name"])) if loaded else [])
            print("Search from cache:", len(runtime.search_tool_docs_sync("calendar")))
            print("cwd:", first.get("cwd") or "bridge-default", first["tools"][0]["input_schema"]["type"])
            print(loaded[0]["tools"] == first["tools"], runtime.discovered_servers(detailed=True)[0])
            """,
            "Discovered: ('fs', 'Web-Fetch')\n"
            "Cached servers: ('fs', 'Web-Fetch')\n"
            "Loaded metadata: ({'name': 'fs', 'alias': 'fs', 'description': 'The fs server'}, "
            "{'name': 'Web-Fetch', 'alias': 'Web_Fetch', 'description': 'The Web-Fetch server'})\n"
            "Selectable via RPC: ('fs', 'Web-Fetch')\n"
            "read_file -> Read a file\nlist -> List\n"
            "Summaries: 2\nCached tools: ['read_file', 'list']\n"
            "Detailed doc: {'type': 'object', 'properties': {'path': {'type': 'string'}}}\n"
            "fs read_file Read a file\n"
            "Capability summary: the manual\nDocs from cache: 2\nSearch from cache: 2\n"
            "cwd: /srv object\n"
            "True {'name': 'fs', 'description': 'The fs server'}\n",
        )
        self.assertEqual(ended.notes, [])

    def test_helpers_work_with_and_without_await(self):
        self.call(
            """\
            import mcp, asyncio
            from mcp import runtime
            print(await mcp.runtime.discovered_servers(), mcp.runtime.discovered_servers())
            print(await runtime.capability_summary(), runtime.capability_summary())
            print((await runtime.describe_server("fs"))["name"], runtime.describe_server("fs")["name"])
            print(len(await runtime.list_loaded_server_metadata()))
            print(runtime.find_servers("clock")[0].name, (await runtime.find_servers("clock", limit=3))[0].name)
            async def inner():
                return await load_memory("k", 5), load_memory("k", 6), await memory_exists("k")
            print(await inner(), asyncio.run(inner()))
            print(await save_memory("k", [1]), await load_memory("k"), await delete_memory("k"), await list_memories())
            """,
            "('fs', 'Web-Fetch') ('fs', 'Web-Fetch')\nthe manual the manual\nfs fs\n2\ntime time\n"
            "(5, 6, False) (5, 6, False)\n"
            "{'key': 'k', 'version': 1, 'metadata': None} [1] True []\n",
        )

    def test_sync_forms_of_all(self):
        self.call(
            """\
            from mcp import runtime
            r = runtime
            print(r.discovered_servers_sync(), r.list_servers_sync(), r.describe_server_sync("fs").cwd, len(r.list_tools_sync("fs")))
            print(len(r.query_tool_docs_sync("fs", "list", detail="full")), r.capability_summary_sync(), r.find_servers_sync("x")[0].source)
            print(r.call_tool_sync("fs", "read_file", {"path": "1"}), len(r.search_tool_docs_sync("x", limit=1)))
            try:
                r.list_tools_sync()
            except r.MCPError as e:
                print(e)
            """,
            "('fs', 'Web-Fetch') ('fs', 'Web-Fetch') /srv 2\n1 the manual catalog\ncontent of 1 1\n"
            "list_tools_sync(server) needs the name of a server\n",
        )

    def test_an_added_server_can_be_used_at_once(self):
        self.call(
            """\
            from mcp import runtime
            t = runtime.add_server("time")
            print(t, mcp_servers["time"] is t, mcp_time is t)
            print(await mcp_time.echo(a=1), runtime.discovered_servers())
            from mcp.servers.time import echo
            """,
            "<MCP server time: await mcp_time.<tool>(...); await mcp_time.list_tools() names the tools> True True\n"
            "{'a': 1} ('fs', 'Web-Fetch', 'time')\n",
        )

    def test_what_is_asked_of_the_host(self):
        ended = self.call(
            """\
            from mcp import runtime
            await runtime.search_tool_docs("a b", limit=None, detail="FULL")
            await runtime.query_tool_docs(mcp_fs)
            await runtime.add_server("x", persist=True)
            """
        )
        self.assertEqual(
            ended.calls,
            [
                ("tools.search", {"query": "a b", "limit": 5, "detail": "full"}),
                ("tools.docs", {"server": "fs", "detail": "summary"}),
                ("servers.add", {"name": "x", "persist": True}),
            ],
        )

    def test_star_import_leaves_the_builtins_alone(self):
        self.good(
            "from mcp import *\nfrom mcp.runtime import *\nimport builtins\n"
            "print(KeyError is builtins.KeyError, TimeoutError is builtins.TimeoutError, MCPError is mcp.MCPError)",
            "True True True\n",
        )

    def test_dir_and_all(self):
        ended = self.call(
            "from mcp import runtime\nfrom mcp.runtime import *\nimport mcp.servers\nprint(dir(mcp.servers))\nprint(runtime.__all__)"
        )
        self.assertIn("['Web_Fetch', 'fs']", ended.stdout)
        for name in "call_tool search_tool_docs_sync save_memory update_memory save_tool delete_tool add_server MCPError".split():
            self.assertIn(repr(name), ended.stdout)


class Memories(Case):
    def setUp(self):
        self.host = Host()

    def call(self, code, stdout=None):
        return self.good(CODE(code), stdout, handlers=self.host.handlers)

    def test_round_trip(self):
        self.call(
            """\
            info = save_memory("project", {"n": 9007199254740993, "s": "é"}, metadata={"tags": ["x"]})
            print(info["version"], load_memory("project"), load_memory("none"), load_memory("none", default=[]))
            print(memory_exists("project"), memory_exists("none"), get_memory_info("project")["metadata"], get_memory_info("none"))
            print([m["key"] for m in list_memories()], delete_memory("project"), delete_memory("project"), list_memories())
            from mcp.runtime import save_memory as again
            from mcp import runtime
            print(again is save_memory, runtime.load_memory is load_memory)
            save_memory("d", {})
            print(type(load_memory("d")))
            """,
            "1 {'n': 9007199254740993, 's': 'é'} None []\nTrue False {'tags': ['x']} None\n['project'] True False []\n"
            "True True\n<class 'dict'>\n",
        )

    def test_keys_that_are_no_text(self):
        for key, told in (("1", "not a int"), ("'\\ud800'", "half a character")):
            for call in ("save_memory(%s, 1)", "load_memory(%s)", "delete_memory(%s)", "await save_memory(%s, 1)"):
                ended = run(call % key, handlers=self.host.handlers)
                self.assertEqual(ended.error["type"], "ToolArgumentError")
                self.assertIn(told, ended.error["message"])

    def test_update(self):
        self.call(
            """\
            print(update_memory("n", lambda v: (v or 0) + 1), update_memory("n", lambda v: v + 1))
            print(update_memory("l", lambda v: v + [1], default=[]), await update_memory("l", lambda v: v + [2]))
            async def later(v):
                return v * 2
            print(await update_memory("n", later))
            """,
            "1 2\n[1] [1, 2]\n4\n",
        )
        self.assertEqual(self.host.memories["n"][:2], (4, 3))

    def test_update_tries_again_when_somebody_was_faster(self):
        self.host.conflicts = 5
        self.call(
            "calls = []\nprint(update_memory('n', lambda v: calls.append(v) or 7), len(calls))\n", "7 6\n"
        )
        self.host.conflicts = 3
        self.call("print(await update_memory('n', lambda v: v + 1))", "8\n")
        self.host.conflicts = 10**6
        ended = run("update_memory('n', lambda v: 1)", handlers=self.host.handlers)
        self.assertEqual(ended.error["type"], "VersionConflict")

    def test_a_failing_update_changes_nothing(self):
        ended = run("save_memory('k', 1)\nupdate_memory('k', lambda v: 1 / 0)", handlers=self.host.handlers)
        self.assertEqual(ended.error["type"], "ZeroDivisionError")
        self.assertEqual(self.host.memories["k"][:2], (1, 1))

    def test_bad_arguments(self):
        for code in ("save_memory(1, 2)", "save_memory('k', {1, 2}.pop)", "save_memory('k', float('inf'))", "load_memory(None)"):
            with self.subTest(code=code):
                self.bad(code, "ToolArgumentError")
        ended = self.bad("async def f(v): pass\nupdate_memory('k', f)", "ToolArgumentError", handlers=self.host.handlers)
        self.assertIn("await update_memory", ended.error["message"])


class SavedTools(Case):
    def setUp(self):
        self.host = Host()

    def call(self, code, stdout=None, **options):
        return self.good(CODE(code), stdout, handlers=self.host.handlers, saved=list(self.host.saved), **options)

    def test_save_and_use(self):
        self.call(
            '''\
            import json, re as regex
            from collections import Counter
            LIMIT = [1, 2]
            def helper(x):
                return json.dumps(x) + str(LIMIT)
            class Box:
                n = Counter("aab")
            def tool(x=1, *, y=None):
                """Does things.

                More."""
                def inner(z):
                    return helper(z)
                return inner(x), Box.n["a"], regex.sub("a", "b", "a"), [len(i) for i in ("", "x")]
            print(save_tool(tool))
            print([t["name"] for t in __import__("mcp").runtime.list_saved_tools()])
            ''',
            "Saved tool tool. Later runs have it as tool(...) and by `from mcp.tools import tool`.\n['tool']\n",
        )
        self.assertEqual(self.host.saved["tool"]["description"], "Does things.")
        expected = "('2[1, 2]', 2, 'b', [0, 1])\n"
        self.call("print(tool(2))", expected)
        self.call("from mcp.tools import tool as t\nprint(t(2))\nprint(t.__doc__.split('.')[0])", expected + "Does things\n")
        self.call("from user_tools import tool\nprint(tool(2))", expected)
        self.call("import mcp.tools\nprint(mcp.tools.tool(2), dir(mcp.tools))", expected[:-1] + " ['tool']\n")

    def test_source_with_characters_that_end_no_line(self):
        self.call("PAGE = '\x0c\u2028'\ndef f():\n    return '\x0c\x1c'\n\n\nprint(save_tool(f)[:5])", "Saved\n")
        self.assertEqual(self.host.saved["f"]["code"], "def f():\n    return '\x0c\x1c'\n")
        self.host.saved["f"]["code"] = "x = '\x0c'\ndef f(): return 1 / 0\n"
        ended = self.bad("f()", "ZeroDivisionError", handlers=self.host.handlers, saved=["f"])
        self.assertIn("line 2, in f\n    def f(): return 1 / 0", ended.traceback)

    def test_async_and_mcp_names(self):
        self.call(
            """\
            async def fetch(p):
                return await mcp_fs.read_file(path=p), await mcp_servers["fs"].read_file(path=p), load_memory("x", 1)
            save_tool(fetch)
            """,
            servers=SERVERS,
        )
        self.call("print(await fetch('1'))", "('content of 1', 'content of 1', 1)\n", servers=SERVERS)

    def test_a_saved_tool_that_uses_others(self):
        self.call("def helper(): return 1\ndef other(): return 2\nsave_tool(helper); save_tool(other)")
        self.call(
            """\
            from mcp.tools import other
            from mcp.tools import helper as loaded
            alias = helper
            def g(): return helper(), alias(), other(), loaded()
            save_tool(g)
            """
        )
        self.assertNotIn("def helper", self.host.saved["g"]["code"])
        self.call("print(g())", "(1, 1, 2, 1)\n")

    def test_what_is_saved_already_or_no_longer(self):
        self.call("def helper(): return 1\nsave_tool(helper)")
        for code, told in (
            ("save_tool(helper)", "helper is saved already"),
            ("from mcp.tools import helper\nsave_tool(helper)", "helper is saved already"),
            ("mcp.runtime.delete_tool('helper')\ndef g(): return helper()\nsave_tool(g)", "helper is not there any more"),
            ("def g(): pass\ng.__module__ = 'gone'\nsave_tool(g)", "the source of g is not known"),
        ):
            with self.subTest(code=code):
                ended = self.bad(code, "ToolArgumentError", handlers=self.host.handlers, saved=["helper"])
                self.assertIn(told, ended.error["message"])

    def test_source_text(self):
        self.call("save_tool('def f(x):\\n    return x + 1\\n', name='f', description='adds')\nfrom mcp.tools import f\nprint(f(1))", "2\n")
        self.assertEqual(self.host.saved["f"]["description"], "adds")

    def test_what_cannot_be_saved(self):
        for code, told in (
            ("save_tool(1)", "not a int"),
            ("save_tool(lambda: 1)", "lambda"),
            ("save_tool(len)", "not a builtin"),
            ("f = open('/dev/null')\ndef g(): return f\nsave_tool(g)", "uses the global 'f'"),
            ("def g(): return undefined_name\nsave_tool(g)", "'undefined_name', which is not defined"),
            ("exec('def g(): pass')\nsave_tool(g)", "the source of g is not known"),
            ("save_tool('def f(:', name='f')", "no valid Python"),
            ("save_tool('x = 1')", "needs the name"),
            ("def g(): pass\nsave_tool(g, name='h')", "rename it"),
        ):
            with self.subTest(code=code):
                ended = self.bad(code, "ToolArgumentError", handlers=self.host.handlers)
                self.assertIn(told, ended.error["message"])

    def test_a_broken_one_is_told_where_it_is_used(self):
        for code in ("def f(:", "1 / 0", "x = 1"):
            self.host.saved = {"f": {"name": "f", "code": code, "description": ""}}
            self.call("print(f)", "<saved tool f>\n")
            for use in ("f()", "from mcp.tools import f"):
                ended = run(use, handlers=self.host.handlers, saved=["f"])
                self.assertEqual(ended.error["type"], "MCPError", ended)
                self.assertIn("the saved tool 'f' is broken", ended.error["message"])

    def test_errors_inside_show_the_tools_own_lines(self):
        self.host.saved = {"f": {"name": "f", "code": "def f():\n    return 1 / 0\n", "description": ""}}
        ended = self.bad("f()", "ZeroDivisionError", handlers=self.host.handlers, saved=["f"])
        self.assertIn('File "<saved tool f>", line 2, in f\n    return 1 / 0', ended.traceback)
        self.assertNotIn("mcp/", ended.traceback)

    def test_delete(self):
        self.call("def f(): pass\nsave_tool(f)\nfrom mcp import runtime\nprint(runtime.delete_tool('f'), runtime.delete_tool('f'))", "True False\n")

    def test_unknown(self):
        ended = run("from mcp.tools import nope", saved=["a", "b"])
        self.assertEqual(ended.error["type"], "ImportError")

    def test_a_saved_name_never_hides_ours(self):
        self.host.saved = {"mcp_servers": {"name": "mcp_servers", "code": "", "description": ""}}
        self.call("print(type(mcp_servers).__name__)", "Servers\n")
