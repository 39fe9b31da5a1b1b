#!/usr/bin/env python3
"""A reader of the gateway's log, written from docs/readers.md alone. It prints a line of JSON for each
record and acknowledges it. It needs Python 3 and nothing else.

    reader.py HOST PORT NAME [--token-file FILE] [--ca FILE] [--start first|next|stored] [--client C]
              [--prefix P] [--share I/N] [--count N]

As a module:

    for batch in Reader(("127.0.0.1", 7100), "copy", start=FIRST):
        for record in batch.records: ...
        batch.ack()
"""
import argparse
import base64
import json
import os
import random
import socket
import ssl
import struct
import sys
import time

CONN, SUBMIT, DELIVER, CONN_ACK, SUBMIT_ACK = 0x01, 0x02, 0x03, 0x81, 0x82
STORED, FIRST, NEXT, TIME, NUMBER = range(5)
RECORDS, GAP = 1, 2
TRIMMED, DAMAGED = 1, 2
CLIENT, PREFIX, OWN, RESUME, INSTANCE = 1, 2, 3, 4, 5
MALFORMED, UNAUTHORISED, LEVEL, REGRESSED, MOVED, TOO_MANY, NO_READER, SHARES, AHEAD = 2, 6, 66, 68, 69, 70, 71, 72, 73
FINAL = (MALFORMED, UNAUTHORISED, LEVEL, REGRESSED, TOO_MANY, NO_READER, SHARES, AHEAD)


class Refused(Exception):
    """The server has refused the reader for good."""

    def __init__(self, code, words):
        super().__init__("%d %s" % (code, words.decode("utf-8", "replace")))
        self.code = code


class Lost(Exception):
    """The connection is lost; another one may work."""


class Position:
    """A place in the log, to be stored by a program and given back as own."""

    def __init__(self, log, number, checksum=0):
        self.log, self.number, self.checksum = log, number, checksum

    def bytes(self):
        return self.log + struct.pack(">QI", self.number, self.checksum)

    def __str__(self):
        return "%s/%d.%d/%08x" % (self.log.hex(), self.number >> 16, self.number & 0xffff, self.checksum)


class Record:
    """One message: number, time (milliseconds), client, epoch, sequence, attributes, data."""

    def __init__(self, number, body):
        n = body[0]
        self.number, self.client = number, body[1:1 + n].decode()
        self.epoch, self.sequence, self.time, count = struct.unpack_from(">QQqB", body, 1 + n)
        at, self.attributes = 26 + n, []
        for _ in range(count):
            kind, size = struct.unpack_from(">BH", body, at)
            self.attributes.append((kind, body[at + 3:at + 3 + size]))
            at += 3 + size
        self.data = body[at:]


class Batch:
    """What one Deliver says: records, or a gap (reason, first and last number)."""

    def __init__(self, reader, number, content):
        self.reader, self.records, self.gap, checksum = reader, [], None, 0
        if content[0] == GAP:
            self.gap = struct.unpack(">BQQ", content[1:])
        elif content[0] == RECORDS:
            checksum, at = struct.unpack_from(">I", content, 1)[0], 5
            while at < len(content):
                ident, size = struct.unpack_from(">QI", content, at)
                self.records.append(Record(ident, content[at + 12:at + 12 + size]))
                at += 12 + size
        self.position = Position(reader.log, number, checksum)

    def ack(self):
        """Acknowledges every record up to the end of this batch."""
        self.reader.acked = max(self.reader.acked, self.position.number)
        self.reader.say()


class Reader:
    """Reads, reconnects and goes on; iterate over it for batches."""

    def __init__(self, address, name, token="", start=STORED, at=0, client="", prefix="", share=0, shares=1,
                 window=0, own=None, context=None):
        self.address, self.name, self.token = address, name.encode(), token.encode()
        self.start, self.at, self.filters = start, at, ((CLIENT, client.encode()), (PREFIX, prefix.encode()))
        self.share, self.shares, self.window, self.own, self.context = share, shares, window, own, context
        self.instance = struct.pack(">Q", random.SystemRandom().getrandbits(63) | 1)
        self.socket, self.given, self.acked, self.yields = None, None, 0, False

    def open(self):
        """Connects and says what to read from where."""
        self.socket = socket.create_connection(self.address, timeout=60)
        if self.context:  # an ssl.SSLContext
            self.socket = self.context.wrap_socket(self.socket, server_hostname=self.address[0])
        self.unread, self.taken, self.said = b"", 0, 0
        start, fields = self.start, [(INSTANCE, self.instance)] + [f for f in self.filters if f[1]]
        if self.given is not None:  # go on where this program was, unless an operator has moved the reader
            start, fields = STORED, fields + [(RESUME, self.given.bytes())]
            if self.own:
                fields.append((OWN, (Position(self.log, self.acked) if self.acked else self.own).bytes()))
        elif self.own:
            fields.append((OWN, self.own.bytes()))
        content = b"hgr1" + struct.pack(">BBQHHIB", start, 8 if self.yields else 0, self.at, self.share, self.shares,
                                        self.window, len(self.name))
        content += self.name + struct.pack(">H", len(self.token)) + self.token
        for kind, value in fields:
            content += struct.pack(">BH", kind, len(value)) + value
        self.send(CONN, 1, content)
        command, _, result, content = self.receive()
        if command != CONN_ACK or result != 0:
            self.fail(result, content)
        self.log = content[4:20]
        number, self.generation, window, _, _, self.idle = struct.unpack(">QQIHHI", content[20:48])
        self.allowed = window
        if self.given is None or self.given.number != number:
            self.given, self.acked = Position(self.log, number), 0
        self.yields = False
        if self.acked:
            self.say()

    def fail(self, result, words):
        if result in FINAL or result == MOVED and self.yields:
            raise Refused(result, words)
        self.yields = result == MOVED  # by another reader, or by a connection that is gone
        raise Lost("result %s %s" % (result, words.decode("utf-8", "replace")))

    def send(self, command, ident, content=b""):
        self.socket.sendall(struct.pack(">IBQ", 13 + len(content), command, ident) + content)

    def receive(self):
        """The next frame: command, id, result and content. A Deliver has no result."""
        while True:
            if len(self.unread) >= 4:
                length = struct.unpack_from(">I", self.unread)[0]
                if len(self.unread) >= length:
                    whole, self.unread = self.unread[:length], self.unread[length:]
                    command, ident = struct.unpack_from(">BQ", whole, 4)
                    if command == DELIVER:
                        return command, ident, None, whole[13:]
                    return command, ident, whole[13], whole[14:]
            try:
                more = self.socket.recv(1 << 18)
            except socket.timeout:
                self.send(CONN, 2)  # a heartbeat
                continue
            if not more:
                raise Lost("closed by the server")
            self.unread += more

    def say(self):
        """Tells the server what is done and what has been taken."""
        try:
            if self.socket:
                self.said = self.taken
                self.send(SUBMIT, self.acked, struct.pack(">QQQ", self.generation, self.acked, self.taken))
        except OSError:
            self.close()

    def close(self):
        """Closes the connection; what was acknowledged has been sent."""
        if self.socket:
            self.socket.close()
            self.socket = None

    def batch(self):
        """The next batch on this connection."""
        while True:
            command, number, result, content = self.receive()
            if command == DELIVER:
                b = Batch(self, number, content)
                self.given, self.taken = b.position, self.taken + len(content)
                if self.taken - self.said >= self.allowed // 4:
                    self.say()
                return b
            if result != 0:
                self.fail(result, content)

    def __iter__(self):
        pause = 0.02
        while True:
            try:
                if not self.socket:
                    self.open()
                yield self.batch()
                pause = 0.02
            except (Lost, OSError) as why:
                print("reader.py: trying again: %s" % why, file=sys.stderr)
                self.close()
                time.sleep(3 if self.yields else pause * random.uniform(0.5, 1))
                pause = min(2 * pause, 2)


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("host")
    flags.add_argument("port", type=int)
    flags.add_argument("name")
    flags.add_argument("--token-file")
    flags.add_argument("--ca", help="connect with TLS, and trust the certificate authorities in this PEM file")
    flags.add_argument("--start", default="first", choices=("stored", "first", "next"))
    flags.add_argument("--client", default="")
    flags.add_argument("--prefix", default="")
    flags.add_argument("--share", default="0/1")
    flags.add_argument("--count", type=int, default=0, help="end after so many records; 0: never")
    args = flags.parse_args()
    share, shares = map(int, args.share.split("/"))
    token = open(args.token_file).read().strip() if args.token_file else ""
    context = ssl.create_default_context(cafile=args.ca) if args.ca else None
    reader = Reader((args.host, args.port), args.name, token, {"stored": STORED, "first": FIRST, "next": NEXT}[args.start],
                    client=args.client, prefix=args.prefix, share=share, shares=shares, context=context)
    printed = 0
    try:
        for batch in reader:
            for r in batch.records:
                print(json.dumps({"number": "%d.%d" % (r.number >> 16, r.number & 0xffff), "client": r.client,
                                  "epoch": r.epoch, "seq": r.sequence, "time": time.strftime(
                                      "%Y-%m-%dT%H:%M:%S", time.gmtime(r.time // 1000)) + ".%03dZ" % (r.time % 1000),
                                  "data": base64.b64encode(r.data).decode()}))
            if batch.gap:
                print(json.dumps({"gap": batch.gap[0], "from": batch.gap[1], "to": batch.gap[2]}))
            sys.stdout.flush()
            batch.ack()
            printed += len(batch.records)
            if args.count and printed >= args.count:
                break
    except Refused as why:
        sys.exit("reader.py: refused: %s" % why)
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(1)
    reader.close()


if __name__ == "__main__":
    main()
