"""Results of tools in the form that code wants: structured content, else text, else a list of blocks."""

import base64
import functools
import json


class Record(dict):
    """A dict whose keys can also be read as attributes (issue.title), as long as no dict method has that name."""

    __slots__ = ()

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError("no key %r; there are: %s" % (name, ", ".join(map(str, self)) or "none")) from None

    def __dir__(self):
        return [*super().__dir__(), *(k for k in self if isinstance(k, str) and k.isidentifier())]


parse = functools.partial(json.loads, object_pairs_hook=Record)


class Text(str):
    """A text block of a mixed result. It is a str."""

    type = "text"

    @property
    def text(self):
        return str(self)


class Block:
    """A block that is not text. raw is the block as the server sent it."""

    def __init__(self, raw):
        self.raw = raw

    @property
    def type(self):
        return self.raw.get("type")

    def __getattr__(self, name):
        """The block's own fields (uri, name, size, title, …), those of its resource included."""
        raw = self.__dict__.get("raw", {})
        for source in (raw, raw.get("resource") or {}):
            if name in source:
                return source[name]
        raise AttributeError("%s has no %r" % (type(self).__name__, name))

    def __getitem__(self, name):
        return self.raw[name]

    @property
    def mime_type(self):
        """The media type that the server gave, or None."""
        return self.raw.get("mimeType") or (self.raw.get("resource") or {}).get("mimeType")

    @property
    def uri(self):
        return self.raw.get("uri") or (self.raw.get("resource") or {}).get("uri")

    def __repr__(self):
        parts = [type(self).__name__, self.uri, self.mime_type]
        if isinstance(self, Media):
            parts.append("%d bytes" % len(self.data))
        return "<%s>" % " ".join(str(p) for p in parts if p)


class Media(Block):
    """A block that carries bytes: data has them, save(path) writes them."""

    @functools.cached_property
    def data(self):
        return base64.b64decode(self.raw.get("data") or "")

    def __bytes__(self):
        return self.data

    def __len__(self):
        return len(self.data)

    def save(self, path):
        """Writes the bytes to a file; returns the path."""
        with open(path, "wb") as f:
            f.write(self.data)
        return path


class Image(Media):
    """An image."""


class Audio(Media):
    """A sound."""


class Resource(Media):
    """A resource that came with the result. text is set when it is text, data always."""

    @property
    def text(self):
        return (self.raw.get("resource") or {}).get("text")

    @functools.cached_property
    def data(self):
        inner = self.raw.get("resource") or {}
        if inner.get("blob") is not None:
            return base64.b64decode(inner["blob"])
        return (inner.get("text") or "").encode()


class ResourceLink(Block):
    """The address of a resource that did not come with the result."""


_KINDS = {"image": Image, "audio": Audio, "resource": Resource, "resource_link": ResourceLink}


def block(raw):
    if not isinstance(raw, dict):
        return raw
    if raw.get("type") == "text":
        return Text(raw.get("text") or "")
    return _KINDS.get(raw.get("type"), Block)(raw)


def unwrap(result):
    """What a call returns. The order is fixed: structured content, a single text, None for nothing, a list of blocks."""
    if not isinstance(result, dict):
        return result
    structured = result.get("structuredContent")
    if structured is not None:
        return structured["result"] if _wrapped(result, structured) else structured
    content = result.get("content")
    if not isinstance(content, list):
        return result if content is None and "content" not in result else content
    if not content:
        return None
    if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
        return content[0].get("text") or ""
    return [block(raw) for raw in content]


def _wrapped(result, structured):
    """Whether the result is a bare value that had to be put into an object: the host tells by the tool's output schema
    (_meta "thawpool/wrapped"), FastMCP itself by its own mark."""
    if not isinstance(structured, dict) or list(structured) != ["result"]:
        return False
    meta = result.get("_meta") or {}
    own = meta.get("fastmcp")
    return bool(meta.get("thawpool/wrapped") or (isinstance(own, dict) and own.get("wrap_result")))
