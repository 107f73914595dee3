"""Calling tools: what is sent, what comes back, what is raised."""

import textwrap

from .fakes import PNG, SERVERS, Host, never
from .harness import LATER, Case

CODE = textwrap.dedent


def held_back(runner, frame):
    """Never answers the tool slow."""
    if frame["args"]["tool"] != "slow":
        runner.reply(frame["id"], {"content": []})
    return LATER


held_back.wants_frame = True


def sent(ended):
    return [args for verb, args in ended.calls if verb == "tools.call"]


class Calls(Case):
    def call(self, code, stdout=None, handlers=None, **options):
        handlers = dict(Host().handlers, **(handlers or {}))
        return self.good(CODE(code), stdout, handlers=handlers, servers=SERVERS, **options)

    def refused(self, code, kind, handlers=None):
        return self.bad(CODE(code), kind, handlers=dict(Host().handlers, **(handlers or {})), servers=SERVERS)

    def test_every_way_to_reach_a_tool(self):
        ended = self.call(
            """\
            from mcp.servers.fs import read_file
            from mcp.servers import fs
            import mcp.servers.Web_Fetch as web
            from mcp import runtime
            import mcp
            print(await mcp_fs.read_file(path="1"))
            print(await mcp_servers["fs"].read_file(path="2"))
            print(await mcp_fs["read_file"](path="3"))
            print(await read_file(path="4"))
            print(await fs.read_file(path="5"))
            print(await runtime.call_tool("fs", "read_file", {"path": "6"}))
            print(await mcp_fs.call_tool("read_file", {"path": "7"}))
            print(runtime.call_tool_sync("fs", "read_file", {"path": "8"}))
            print(mcp_fs.read_file.sync(path="9"))
            print(await mcp.runtime.call_tool("Web_Fetch", "fetch", {"url": "u"}), await web.fetch(url="u"))
            print(await mcp_servers["Web_Fetch"].fetch(url="u"))
            """,
            "".join("content of %d\n" % n for n in range(1, 10)) + "raw None raw None\nraw None\n",
        )
        self.assertEqual({c["server"] for c in sent(ended)}, {"fs", "Web-Fetch"})

    def test_star_import(self):
        self.call("from mcp.servers.fs import *\nprint(await read_file(path='1'))", "content of 1\n")

    def test_no_await_at_top_level_and_asyncio_run(self):
        self.call(
            "import asyncio\nasync def main():\n    print(await mcp_fs.read_file(path='1'))\nasyncio.run(main())", "content of 1\n"
        )

    def test_a_coroutine_at_the_end_is_awaited(self):
        self.assertEqual(self.call("mcp_fs.read_file(path='1')").value, "'content of 1'")

    def test_arguments_are_sent_as_given(self):
        ended = self.call(
            """\
            await mcp_fs.echo()
            await mcp_fs.echo(**{"from": 1, "self": 2, "tool": 3, "args": 4, "a b": 5})
            await mcp_fs.echo({"x": None, "class": True})
            await mcp_fs.echo({"x": 1}, y=2)
            await mcp_fs.echo(n=9007199254740993, f=1.5, s="é\\ud800", l=(1, 2))
            """
        )
        self.assertEqual(
            [c["args"] for c in sent(ended)],
            [
                {},
                {"from": 1, "self": 2, "tool": 3, "args": 4, "a b": 5},
                {"x": None, "class": True},
                {"x": 1, "y": 2},
                {"n": 9007199254740993, "f": 1.5, "s": "é\ud800", "l": [1, 2]},
            ],
        )

    def test_values_of_other_types(self):
        ended = self.call(
            """\
            import pathlib, datetime, dataclasses, enum, uuid, decimal, collections
            @dataclasses.dataclass
            class P:
                x: int
            class E(enum.Enum):
                A = "a"
            await mcp_fs.echo(
                p=pathlib.Path("/x"), d=datetime.date(2024, 1, 2), c=P(1), e=E.A, u=uuid.UUID(int=0), m=decimal.Decimal("1.50"),
                s={"b", "a"}, g=(i for i in range(2)), v={"k": 1}.values(), o=collections.OrderedDict(a=1), r=range(2),
                k=collections.UserDict(z=1))
            """
        )
        self.assertEqual(
            sent(ended)[0]["args"],
            {
                "p": "/x",
                "d": "2024-01-02",
                "c": {"x": 1},
                "e": "a",
                "u": "00000000-0000-0000-0000-000000000000",
                "m": "1.50",
                "s": ["a", "b"],
                "g": [0, 1],
                "v": [1],
                "o": {"a": 1},
                "r": [0, 1],
                "k": {"z": 1},
            },
        )

    def test_values_that_cannot_be_sent(self):
        for value, told in (
            ("float('nan')", "JSON compliant"),
            ("b'x'", "bytes have no JSON form"),
            ("object()", "builtins.object has no JSON form"),
            ("loop", "ircular"),
            ("deep", "too deeply"),
            ("deep[0]", "too deeply"),
            ("'x' * (17 << 20)", "at most 16777216 can be sent"),
        ):
            with self.subTest(value=value):
                ended = self.refused(
                    "loop = []; loop.append(loop)\ndeep = []\nfor _ in range(10**5): deep = [deep]\nawait mcp_fs.echo(a=%s)" % value,
                    "ToolArgumentError",
                )
                self.assertIn(told, ended.error["message"])
                self.assertEqual(ended.calls, [])

    def test_arguments_nested_as_deep_as_the_host_takes_them(self):
        self.call(
            """\
            import json
            v = 0
            for n in range(253):
                v = [v] if n % 2 else {'a"[[[\\\\': v}
            print(await mcp_fs.echo(a=v, b=['[{"' * 999, [[], {}]]) is not None)
            try:
                await mcp_fs.echo(a=[v])
            except mcp.ToolArgumentError as e:
                print("too deeply" in str(e))
            """,
            "True\nTrue\n",
        )

    def test_wrong_ways_to_give_arguments(self):
        for args in ("1", "{}, {}", "{'a': 1}, a=2"):
            ended = self.refused("await mcp_fs.echo(%s)" % args, "ToolArgumentError")
            self.assertIn("mcp_fs.echo", ended.error["message"])

    def test_C28_results_are_exact_and_readable_as_attributes(self):
        self.call(
            """\
            r = await mcp_fs.big()
            print(r["id"], r.id, r.items is not None, r["items"][0].title, isinstance(r, dict), r == {**r})
            import json, copy, pickle
            print(json.dumps(r), copy.deepcopy(r) == r, pickle.loads(pickle.dumps(r)) == r)
            try:
                r.nope
            except AttributeError as e:
                print(e)
            """,
            "1915883588174806058 1915883588174806058 True t True True\n"
            '{"id": 1915883588174806058, "items": [{"title": "t"}]} True True\n'
            "no key 'nope'; there are: id, items\n",
        )

    def test_unwrapping(self):
        self.call(
            """\
            for tool in ("numbers", "two", "nothing", "lone", "marked", "list"):
                print(tool, repr(await mcp_fs[tool]()))
            print(await mcp_fs.read_file({"path": "1"}, raw=True))
            print(await mcp_fs.nothing(raw=True))
            """,
            "numbers '[1, 2]'\ntwo ['one', 'two']\nnothing None\nlone {'result': 1}\nmarked 2\nlist ['a', 'b']\n"
            "{'content': [{'type': 'text', 'text': 'content of 1'}]}\n{'content': []}\n",
            handlers={"tools.docs": lambda a: [{"inputSchema": {"type": "object"}}]},
        )

    def test_C18_blocks(self):
        self.call(
            """\
            text, image, audio, page, blob, link, novel = await mcp_fs.mixed()
            print(text, text.type, text.text, isinstance(text, str))
            print(image, image.mime_type, image.type, len(image.data), bytes(image) == image.data)
            print(audio, audio.data)
            print(page, page.text, page.data, page.uri)
            print(blob, blob.text, blob.data)
            print(link, link.name, link.size, link["uri"])
            print(novel, novel.x)
            print(open(image.save("x.png"), "rb").read() == image.data)
            [one] = await mcp_fs.image()
            print(one.data == %r)
            """
            % PNG,
            "see text see True\n"
            "<Image image/png 72 bytes> image/png image 72 True\n"
            "<Audio audio/wav 4 bytes> b'RIFF'\n"
            "<Resource file:///x text/plain 3 bytes> hé b'h\\xc3\\xa9' file:///x\n"
            "<Resource file:///y 3 bytes> None b'\\x00\\x01\\x02'\n"
            "<ResourceLink file:///z> z 5 file:///z\n"
            "<Block> 1\nTrue\nTrue\n",
        )

    def test_raw_and_timeout_belong_to_the_tool_that_has_them(self):
        ended = self.call(
            """\
            print(await mcp_Web_Fetch.fetch(url="u", raw=True))
            print(await mcp_Web_Fetch.fetch({"url": "u", "raw": True}, raw=True))
            print(await mcp_fs.read_file(path="1", raw=True, timeout=60))
            print(mcp_fs.read_file.sync(path="1", raw=True, timeout=60))
            """,
            "raw True\n{'content': [{'type': 'text', 'text': 'raw True'}]}\n"
            + "{'content': [{'type': 'text', 'text': 'content of 1'}]}\n" * 2,
        )
        self.assertEqual([c["args"] for c in sent(ended)][2:], [{"path": "1"}] * 2)

    def test_timeout_of_one_call(self):
        ended = self.call(
            """\
            for error in (TimeoutError, mcp.MCPError, mcp.TimeoutError):
                try:
                    await mcp_fs.call_tool("slow", {}, timeout=0.01)
                except error as e:
                    print(e)
            """,
            "mcp_fs.slow did not answer within 0.01 s\n" * 3,
            handlers={"tools.call": never},
        )
        self.assertEqual(ended.cancelled, [1, 2, 3])

    def test_timeout_of_one_call_that_waits_on_its_thread(self):
        """Within a running loop too, and with times that a lock does not take."""
        code = """\
            import asyncio
            from mcp import runtime
            async def g():
                f()
            def f():
                for use in (lambda: mcp_fs.slow.sync({}, timeout=0.01), lambda: runtime.call_tool_sync("fs", "slow", timeout=-1)):
                    try:
                        use()
                    except mcp.TimeoutError as e:
                        print(e)
            %s
            print(mcp_fs.read_file.sync({"path": "1"}, timeout=float("inf")))
            """
        for start in ("f()", "await g()", "await asyncio.to_thread(f)", "asyncio.run(g())"):
            with self.subTest(start=start):
                ended = self.call(
                    code % start,
                    "mcp_fs.slow did not answer within 0.01 s\nmcp_fs.slow did not answer within -1 s\nNone\n",
                    handlers={"tools.call": held_back},
                )
                self.assertEqual(ended.cancelled, [1, 2])

    def test_gather_runs_in_parallel(self):
        """The host answers the first call only after the last has come."""
        held = []

        def hold(runner, frame):
            held.append(frame)
            if len(held) == 20:
                for f in reversed(held):
                    runner.reply(f["id"], {"content": [{"type": "text", "text": str(f["args"]["args"]["n"])}]})
            return LATER

        hold.wants_frame = True
        self.call(
            "import asyncio\nprint(await asyncio.gather(*(mcp_fs.slow(n=n) for n in range(20))))",
            "%r\n" % [str(n) for n in range(20)],
            handlers={"tools.call": hold},
        )

    def test_cancelling_a_task_tells_the_host(self):
        ended = self.call(
            """\
            import asyncio
            task = asyncio.create_task(mcp_fs.slow())
            other = asyncio.ensure_future(mcp_fs.slow())
            await mcp_fs.call_tool("read_file", {"path": "1"})
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                print("cancelled")
            """,
            "cancelled\n",
            handlers={"tools.call": held_back},
        )
        self.assertEqual(ended.cancelled, [2, 3], "the second when its loop ended")

    def test_calls_from_threads(self):
        self.call(
            """\
            import threading, asyncio
            from concurrent.futures import ThreadPoolExecutor
            from mcp import runtime
            def f(n):
                return runtime.call_tool_sync("fs", "read_file", {"path": str(n)}) + asyncio.run(g(n))
            async def g(n):
                return " and " + await mcp_fs.read_file(path=str(n))
            with ThreadPoolExecutor(8) as e:
                print(sorted(e.map(f, range(50))) == sorted("content of %d and content of %d" % (n, n) for n in range(50)))
            print(threading.active_count())
            """,
            "True\n1\n",
        )

    def test_sync_call_inside_a_running_loop(self):
        self.call("import asyncio\nawait asyncio.sleep(0)\nprint(mcp_fs.read_file.sync(path='1'))", "content of 1\n")

    def test_calls_within_a_nested_run(self):
        self.call(
            "import asyncio\nawait asyncio.sleep(0)\nasync def f(): return await mcp_fs.read_file(path='1')\nprint(asyncio.run(f()))",
            "content of 1\n",
        )

    def test_no_calls_from_forked_processes(self):
        self.call(
            """\
            import os
            print(mcp_fs.read_file.sync(path="1"), flush=True)
            pid = os.fork()
            if not pid:
                try:
                    mcp_fs.read_file.sync(path="2")
                except mcp.MCPError as e:
                    print(e, flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
            print(mcp_fs.read_file.sync(path="3"))
            """,
            "content of 1\nonly the process that runs the code can call the host, not one that it has forked\ncontent of 3\n",
        )

    def test_large_results_and_arguments(self):
        self.call(
            "r = await mcp_fs.echo(a='é' * (2 << 20))\nprint(len(r.a), r.a == 'é' * (2 << 20))", "%d True\n" % (2 << 20)
        )

    def test_many_calls(self):
        ended = self.call(
            "import asyncio\nr = await asyncio.gather(*(mcp_fs.echo(n=n) for n in range(2000)))\nprint(sum(x.n for x in r))",
            "%d\n" % sum(range(2000)),
        )
        self.assertEqual(len(sent(ended)), 2000)
