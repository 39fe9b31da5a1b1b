#!/usr/bin/env python3
"""A client of the gateway's protocol, written from docs/gateway.md alone, that checks a
running server: client.py HOST PORT [TOKEN-FILE]. It prints a line for each check and exits with
1 when one fails. It needs Python 3 and nothing else.
"""
import os
import socket
import struct
import sys
import time

CONN, SUBMIT, DELIVER, CONN_ACK, SUBMIT_ACK = 0x01, 0x02, 0x03, 0x81, 0x82
OK, MALFORMED, UNAUTHORISED, FENCED, LEVEL, GAP, REGRESSED = 0, 2, 6, 64, 66, 67, 68
RECEIVED, DISK, QUORUM = 1, 2, 3


def frame(command, ident, content=b""):
    return struct.pack(">IBQ", 13 + len(content), command, ident) + content


def hello(client, token=b"", level=0, epoch=0, following=1):
    return (b"hgw2" + struct.pack(">BQQB", level, epoch, following, len(client)) + client
            + struct.pack(">H", len(token)) + token)


class Closed(Exception):
    """The server has closed the connection."""


class Session:
    """One connection and the session on it."""

    def __init__(self, address, client, token=b"", **how):
        self.socket = socket.create_connection(address, timeout=30)
        self.unread = b""
        self.send(frame(CONN, 1, hello(client, token, **how)))
        command, ident, result, content = self.receive()
        self.result, self.words = result, content
        if command != CONN_ACK or ident != 1:
            raise AssertionError("answered with command %#x, id %d" % (command, ident))
        if result == OK:
            if len(content) < 37 or content[:4] != b"hgw2":
                raise AssertionError("no welcome: %r" % content)
            (self.level, self.epoch, self.last, self.window, self.most,
             self.idle, self.expiry) = struct.unpack(">BQQIIII", content[4:37])

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """The next frame: command, id, result and content. A push has no result."""
        while True:
            if len(self.unread) >= 4:
                length = struct.unpack(">I", self.unread[:4])[0]
                if len(self.unread) >= length:
                    whole, self.unread = self.unread[:length], self.unread[length:]
                    command, ident = struct.unpack(">BQ", whole[4:13])
                    if command == DELIVER:
                        return command, ident, None, whole[13:]
                    return command, ident, whole[13], whole[14:]
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed()
            self.unread += more

    def submit(self, *records):
        """Sends (sequence number, data) records without waiting."""
        self.send(b"".join(frame(SUBMIT, seq, data) for seq, data in records))

    def acknowledged(self, count):
        """Waits for so many acknowledgements and returns their sequence numbers."""
        found = set()
        while len(found) < count:
            command, ident, result, content = self.receive()
            if command == SUBMIT_ACK and result == OK:
                found.add(ident)
            elif command != DELIVER:
                raise AssertionError("result %s instead of an acknowledgement: %r" % (result, content))
        return found

    def refused(self):
        """Reads to the end of the connection and returns the last result."""
        result = None
        try:
            while True:
                result = self.receive()[2]
                if result == OK:
                    raise AssertionError("acknowledged instead of refused")
        except Closed:
            return result

    def close(self):
        self.socket.close()


def must(what, got, want):
    if got != want:
        raise AssertionError("%s is %r, and has to be %r" % (what, got, want))


def main():
    address = (sys.argv[1], int(sys.argv[2]))
    token = open(sys.argv[3], "rb").read().strip() if len(sys.argv) > 3 else b""
    name = b"python-%d" % os.getpid() if not token else b"python"

    def new(client=name, **how):
        return Session(address, client, token, **how)

    s = new(level=DISK)
    must("the result of a first hello", s.result, OK)
    must("the level", s.level, DISK)
    must("the last record of a new session", s.last, 0)
    if s.window < 1 or s.most < 1024 or s.epoch < 1:
        raise AssertionError("window %d, most %d, epoch %d" % (s.window, s.most, s.epoch))
    print("ok welcome")

    count = min(s.window, 500)
    s.submit(*((seq, b"record %d" % seq) for seq in range(1, count + 1)))
    must("what is acknowledged", s.acknowledged(count), set(range(1, count + 1)))
    print("ok %d records without waiting" % count)

    s.send(frame(CONN, 7))
    must("the answer to a heartbeat", s.receive(), (CONN_ACK, 7, OK, b""))
    print("ok heartbeat")

    s.submit((1, b"record 1"), (count, b"record %d" % count))
    must("duplicates", s.acknowledged(2), {1, count})
    print("ok duplicates are acknowledged")

    first = s.epoch
    s.close()
    s = new(epoch=first, following=count + 1)
    must("the result of going on", (s.result, s.epoch, s.last), (OK, first, count))
    s.submit((count, b"record %d" % count), (count + 1, b"record %d" % (count + 1)))
    must("a duplicate and a new record", s.acknowledged(2), {count, count + 1})
    print("ok resume")

    s.submit((count + 3, b"a gap"))
    must("the result of a gap", s.refused(), GAP)
    print("ok gap")

    must("the result where records are missing", new(epoch=first, following=count + 9).result, REGRESSED)
    must("the result of an epoch that was never given", new(epoch=first + 10**6).result, REGRESSED)
    must("the result of a level that no one disk has", new(level=QUORUM).result, LEVEL)
    print("ok refusals")

    old = new(epoch=first, following=count + 2)
    newer = new()
    if newer.epoch <= first:
        raise AssertionError("epoch %d after %d" % (newer.epoch, first))
    old.refused()
    must("the result of an older epoch", new(epoch=first).result, FENCED)
    newer.submit((1, b"of the newer session"))
    must("the newer session", newer.acknowledged(1), {1})
    print("ok fencing")

    quick = new(level=RECEIVED)
    must("the level", quick.level, RECEIVED)
    quick.submit((1, b"quick"))
    must("level received", quick.acknowledged(1), {1})
    print("ok received")

    for wrong in (b"", b"hgw1" + hello(name, token)[4:], hello(name, token) + b"\0", hello(name, token)[:-1],
                  hello(b"", token), hello(b"two words", token), hello(name, token, level=9),
                  hello(name, token, following=0), hello(name, token, following=2)):
        bad = socket.create_connection(address, timeout=30)
        bad.sendall(frame(CONN, 1, wrong) + frame(SUBMIT, 1, b"x"))
        got = bad.recv(65536)
        must("the result of a hello of %r" % wrong, (got[4], got[13]), (CONN_ACK, MALFORMED))
        bad.close()
    print("ok malformed hellos")

    if token:
        for client, shown in ((name, b"wrong"), (name, b""), (b"other", token)):
            must("the result of %r for %r" % (shown, client), Session(address, client, shown).result, UNAUTHORISED)
        print("ok tokens")
    print("all passed")


if __name__ == "__main__":
    began = time.monotonic()
    try:
        main()
    except (AssertionError, Closed, OSError, struct.error) as error:
        print("FAILED after %.1f s: %s %s" % (time.monotonic() - began, type(error).__name__, error))
        sys.exit(1)
