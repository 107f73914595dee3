"""A host with two small MCP servers, a memory and a shelf of saved tools, as the handlers of a Runner."""

import base64

from .harness import LATER, HostError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


def schema(**properties):
    return {"type": "object", "properties": properties}


STRING = {"type": "string"}
TOOLS = {
    "fs": [
        ("read_file", "Read a file", schema(path=STRING), "async def read_file(path: str) -> str"),
        ("list", "List", schema(path=STRING), "async def list(path: str) -> list"),
    ],
    "Web-Fetch": [("fetch", "Fetch a page", schema(url=STRING, raw={"type": "boolean"}), "async def fetch(url: str, raw: bool = False)")],
}
ALIASES = {"fs": "fs", "Web-Fetch": "Web_Fetch"}
SERVERS = [{"name": n, "alias": a, "description": "The %s server" % n} for n, a in ALIASES.items()]


def text(*texts):
    return {"content": [{"type": "text", "text": t} for t in texts]}


RESULTS = {
    "read_file": lambda a: text("content of " + a["path"]),
    "list": lambda a: {"content": [], "structuredContent": {"result": ["a", "b"]}, "_meta": {"thawpool/wrapped": True}},
    "fetch": lambda a: text("raw " + str(a.get("raw"))),
    "echo": lambda a: {"content": [], "structuredContent": a},
    "big": lambda a: {"content": [], "structuredContent": {"id": 1915883588174806058, "items": [{"title": "t"}]}},
    "numbers": lambda a: text("[1, 2]"),
    "two": lambda a: text("one", "two"),
    "nothing": lambda a: {"content": []},
    "mixed": lambda a: {
        "content": [
            {"type": "text", "text": "see"},
            {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()},
            {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
            {"type": "resource", "resource": {"uri": "file:///x", "mimeType": "text/plain", "text": "hé"}},
            {"type": "resource", "resource": {"uri": "file:///y", "blob": "AAEC"}},
            {"type": "resource_link", "uri": "file:///z", "name": "z", "size": 5},
            {"type": "novel", "x": 1},
        ]
    },
    "image": lambda a: {"content": [{"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}]},
    "lone": lambda a: {"content": [], "structuredContent": {"result": 1}},
    "marked": lambda a: {"content": [], "structuredContent": {"result": 2}, "_meta": {"fastmcp": {"wrap_result": True}}},
    "deep": lambda a: None,
}


def call(args):
    name = args["tool"]
    if name == "fails":
        raise HostError("MCPError", "quota")
    if name == "misspelt":
        raise HostError("ToolArgumentError", "no argument 'pth'; did you mean path? read_file(path: str)")
    if name not in RESULTS:
        raise HostError("UnknownToolError", "fs has no tool %r; nearest: read_file" % name)
    return RESULTS[name](args["args"])


def docs(args):
    if args["server"] not in TOOLS:
        raise HostError("UnknownServerError", "no server %r" % args["server"])
    found = []
    for name, description, inputs, signature in TOOLS[args["server"]]:
        if args.get("tool") not in (None, name):
            continue
        doc = {"server": args["server"], "serverAlias": ALIASES[args["server"]], "tool": name, "toolAlias": name, "alias": name}
        doc.update(description=description, signature=signature)
        if args["detail"] == "full":
            doc.update(inputSchema=inputs, doc='%s:\n    """%s"""' % (signature, description))
        found.append(doc)
    if not found and args.get("tool"):
        raise HostError("UnknownToolError", "no tool %r" % args["tool"])
    return found


def describe(args):
    if args["server"] == "broken":
        raise HostError("UnknownServerError", 'server "broken" is turned off: field "env.T" needs the variable T, which is not set')
    if args["server"] not in ALIASES:
        raise HostError("UnknownServerError", "no server %r" % args["server"])
    return {"name": args["server"], "alias": ALIASES[args["server"]], "state": "known", "tools": 2, "cwd": "/srv"}


class Host:
    """handlers is what a Runner takes. Memories live as long as this object, over several runs."""

    def __init__(self):
        self.memories = {}
        self.saved = {}
        self.conflicts = 0  # how many saves to refuse as stale
        self.handlers = {
            "tools.call": call,
            "tools.docs": docs,
            "tools.list": lambda a: [{"name": t[0], "alias": t[0], "description": t[1]} for t in TOOLS[a["server"]]],
            "tools.search": lambda a: docs({"server": "fs", "detail": a["detail"]})[: a["limit"]],
            "servers.list": lambda a: [dict(s, state="known") for s in SERVERS] + [{"name": "broken", "alias": "broken", "state": "off"}],
            "servers.describe": describe,
            "servers.find": lambda a: [{"name": "time", "description": "clock", "source": "catalog", "installed": False}],
            "servers.add": lambda a: {"name": a["name"], "alias": a["name"]},
            "capability": lambda a: "the manual",
            "memory.save": self.save,
            "memory.load": self.load,
            "memory.delete": lambda a: self.memories.pop(a["key"], None) is not None,
            "memory.list": lambda a: [self.info(k) for k in sorted(self.memories)],
            "memory.info": lambda a: self.info(a["key"]) if a["key"] in self.memories else None,
            "saved.save": lambda a: self.saved.__setitem__(a["name"], a),
            "saved.load": lambda a: self.saved[a["name"]],
            "saved.delete": lambda a: self.saved.pop(a["name"], None) is not None,
            "saved.list": lambda a: [{"name": n, "description": t["description"]} for n, t in self.saved.items()],
        }

    def save(self, args):
        value, version, metadata = self.memories.get(args["key"], (None, 0, None))
        if self.conflicts and "version" in args:
            self.conflicts -= 1
            raise HostError("VersionConflict", "stale")
        if args.get("version", version) != version:
            raise HostError("VersionConflict", "stale")
        self.memories[args["key"]] = (args["value"], version + 1, args.get("metadata", metadata))
        return self.info(args["key"])

    def load(self, args):
        if args["key"] not in self.memories:
            raise HostError("KeyError", "no memory %r" % args["key"])
        return dict(self.info(args["key"]), value=self.memories[args["key"]][0])

    def info(self, key):
        return {"key": key, "version": self.memories[key][1], "metadata": self.memories[key][2]}


def never(runner, frame):
    return LATER


never.wants_frame = True
