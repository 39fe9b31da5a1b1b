"""The frames that honed and its clients exchange, over a connection that notices a silent server."""
from __future__ import annotations

import random
import selectors
import socket
import ssl
import struct
import time
from typing import Iterator, Optional, Tuple

CONN, SUBMIT, DELIVER, CONN_ACK, SUBMIT_ACK = 0x01, 0x02, 0x03, 0x81, 0x82
OK, OVERLOADED, SHUTTING_DOWN, MOVED = 0, 5, 7, 69
FINAL = {2: "malformed", 6: "unauthorised", 64: "fenced", 65: "expired", 66: "level", 67: "gap", 68: "regressed",
         70: "too many", 71: "no reader", 72: "shares", 73: "ahead"}
TIMEOUT = 30.0  # seconds: to connect, to get the answer to the first frame, to send

Address = Tuple[str, int]
Frame = Tuple[int, int, int, bytes]  # command, id, result (OK for a Deliver, which has none), content
WOKEN: Frame = (0, 0, OK, b"")  # what receive returns instead of a frame


class Refused(Exception):
    """The server has refused for good: trying again is useless."""


class Moved(ConnectionError):
    """Another connection, perhaps of another program, has this name now."""


class Away(ConnectionError):
    """The server asks for a pause of some seconds."""

    def __init__(self, text: str, pause: float):
        super().__init__(text)
        self.pause = pause


def check(result: int, content: bytes) -> None:
    """Raises the error that a result stands for. After a ConnectionError another connection may work."""
    text = "%d %s: %s" % (result, FINAL.get(result, "from the server"), content.decode("utf-8", "replace"))
    if result in FINAL:
        raise Refused(text)
    if result in (OVERLOADED, SHUTTING_DOWN) and content.isdigit():
        raise Away(text, random.uniform(0, min(int(content) / 1000, 60)))
    if result != OK:
        raise Moved(text) if result == MOVED else ConnectionError(text)


def frame(command: int, ident: int, content: bytes = b"") -> bytes:
    return struct.pack(">IBQ", 13 + len(content), command, ident) + content


def field(kind: int, value: bytes) -> bytes:
    return struct.pack(">BH", kind, len(value)) + value


def fields(data: bytes, at: int) -> Iterator[Tuple[int, bytes]]:
    """The fields from an offset on."""
    while at < len(data):
        kind, size = struct.unpack_from(">BH", data, at)
        yield kind, data[at + 3:at + 3 + size]
        at += 3 + size


class Connection:
    """A connection, for one thread. Its faults are OSErrors and struct.errors."""

    def __init__(self, address: Address, tls: Optional[ssl.SSLContext]):
        self.socket = socket.create_connection(address, TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.socket, selectors.EVENT_READ)
        self.unread, self.at = b"", 0
        self.interval, self.due, self.unanswered = TIMEOUT, time.monotonic() + TIMEOUT, 2  # no heartbeats before keep

    def open(self, content: bytes) -> bytes:
        """Sends the first frame, and returns the content of the answer."""
        self.send(frame(CONN, 1, content))
        _, _, result, content = self.receive()
        check(result, content)
        return content

    def keep(self, idle: int, woken: Optional[socket.socket] = None) -> None:
        """Has receive send heartbeats well within the server's idle timeout, and return when woken is readable."""
        self.interval = min(20, max(1, (idle or 60) / 3))
        self.due, self.unanswered = time.monotonic() + self.interval, 0
        if woken:
            self.selector.register(woken, selectors.EVENT_READ)

    def send(self, frames: bytes) -> None:
        self.socket.settimeout(TIMEOUT)
        self.socket.sendall(frames)

    def arrived(self) -> Optional[Frame]:
        """The next frame, if all of it has arrived."""
        if len(self.unread) - self.at < 4:
            return None
        length, = struct.unpack_from(">I", self.unread, self.at)
        if not 13 <= length <= 1 << 22:
            raise ConnectionError("no frame has %d bytes: is this honed?" % length)
        if len(self.unread) - self.at < length:
            return None
        whole = self.unread[self.at:self.at + length]
        self.at += length
        command, ident = struct.unpack_from(">BQ", whole, 4)
        if command == DELIVER:
            return command, ident, OK, whole[13:]
        return command, ident, struct.unpack_from(">B", whole, 13)[0], whole[14:]

    def receive(self) -> Frame:
        """Waits for the next frame, or until woken is readable. A server that answers no heartbeat is gone."""
        while True:
            found = self.arrived()
            if found:
                return found
            if time.monotonic() >= self.due:
                if self.unanswered == 2:
                    raise TimeoutError("the server is silent")
                self.send(frame(CONN, 2))
                self.due, self.unanswered = time.monotonic() + self.interval, self.unanswered + 1
            try:
                self.socket.settimeout(0)
                more = self.socket.recv(1 << 18)
            except (BlockingIOError, ssl.SSLWantReadError):
                ready = [key.fileobj for key, _ in self.selector.select(max(0, self.due - time.monotonic()))]
                if ready and self.socket not in ready:
                    return WOKEN
                continue
            if not more:
                raise ConnectionError("closed by the server")
            self.unread, self.at, self.unanswered = self.unread[self.at:] + more, 0, 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.selector.close()
        self.socket.close()
