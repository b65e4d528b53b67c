"""What a command prints: counted and hashed whole, kept as a beginning and an end. Bounded memory."""

from __future__ import annotations

import hashlib


class OutputCollector:
    """Takes bytes as they come; keeps the first `head` and the last `tail` of them.

    Parameters
    ----------
    head, tail : int
        How much is kept.
    opening : bytes
        What comes before the command's own output, and is not counted as such.
    """

    def __init__(self, head: int, tail: int, opening: bytes = b"") -> None:
        self._opening = opening
        self._head_size = head
        self._tail_size = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._hash = hashlib.sha256()
        self.n_bytes = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._opening:
            n_here = min(len(self._opening), len(data))
            if data[:n_here] == self._opening[:n_here]:
                self._opening, data = self._opening[n_here:], data[n_here:]
        self.n_bytes += len(data)
        self._hash.update(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_size :]
            del self._tail[: -self._tail_size]

    @property
    def has_opened(self) -> bool:
        """Whether all that has to come before the command's own output has come."""
        return not self._opening

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of everything so far."""
        return self._hash.hexdigest()

    def shown(self) -> bytes:
        """Everything, or beginning and end with one line between them that says how much was cut."""
        n_cut = self.n_bytes - len(self._head) - len(self._tail)
        if n_cut == 0:
            return bytes(self._head + self._tail)
        head, tail = _whole_end(bytes(self._head)), _whole_start(bytes(self._tail))
        n_cut = self.n_bytes - len(head) - len(tail)
        return b"%s\n[... %d bytes of output cut here ...]\n%s" % (head, n_cut, tail)


def _whole_end(data: bytes) -> bytes:
    """Drop a UTF-8 character that the cut left without its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
    return data


def _whole_start(data: bytes) -> bytes:
    """Drop the rest of a UTF-8 character that the cut left without its beginning."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
