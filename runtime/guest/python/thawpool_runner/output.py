"""Bytes that the child wrote, as out frames of text where they are UTF-8, which is never cut within a character."""

import binascii
from _json import encode_basestring as quote

# The end of a chunk that may be the beginning of a longer UTF-8 sequence: lead byte -> length of the sequence.
_LEADS = [0] * 256
for _byte in range(0xC2, 0xE0):
    _LEADS[_byte] = 2
for _byte in range(0xE0, 0xF0):
    _LEADS[_byte] = 3
for _byte in range(0xF0, 0xF5):
    _LEADS[_byte] = 4


def whole(data):
    """How many bytes of data do not belong to a sequence that only began."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            return len(data) - back if _LEADS[byte] > back else len(data)
    return len(data)


class Output:
    """One of the child's output pipes, and the bytes of it that wait for the rest of a character."""

    def __init__(self, fd, number):
        self.fd = fd
        self.number = number
        self.rest = b""

    def frame(self, data):
        """The out frame for what was read; empty bytes mean the end. None when there is nothing to tell yet."""
        if self.rest or not data:
            data, last = self.rest + data, not data
            self.rest = b""
        else:
            last = False
        if not last:
            cut = whole(data)
            if cut < len(data):
                data, self.rest = data[:cut], data[cut:]
        if not data:
            return None
        try:
            return '{"t":"out","fd":%d,"d":%s}\n' % (self.number, quote(data.decode()))
        except UnicodeDecodeError:
            return '{"t":"out","fd":%d,"b":"%s"}\n' % (self.number, binascii.b2a_base64(data, newline=False).decode())
