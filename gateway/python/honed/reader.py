"""The reader: takes out what honed has stored, from a position that honed keeps. docs/readers.md has the protocol."""
from __future__ import annotations

import itertools
import logging
import random
import ssl
import struct
import time
from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

from .wire import DELIVER, SUBMIT, SUBMIT_ACK, Address, Away, Connection, Frame, Moved, Refused, check, field, fields, frame

log = logging.getLogger("honed")

STORED, FIRST, NEXT, TIME, NUMBER = range(5)
CLIENT, PREFIX, OWN, RESUME, INSTANCE, TOPIC = range(1, 7)
RECORDS, GAP = 1, 2
YIELD = 8
NOTHING_THERE = 1  # the checksum of a position behind a gap


@dataclass(frozen=True)
class Position:
    """A place in the log. A program may store its bytes, and give it back as own in a later run."""

    log: bytes
    number: int
    checksum: int = 0

    def __bytes__(self) -> bytes:
        return struct.pack(">16sQI", self.log, self.number, self.checksum)

    @classmethod
    def parse(cls, data: bytes) -> Position:
        return cls(*struct.unpack(">16sQI", data))


@dataclass(frozen=True)
class Record:
    """A stored message. One that comes again has the same number, and the same client, epoch and sequence."""

    number: int
    client: str
    epoch: int
    sequence: int
    time: int  # Unix time in ms
    attributes: List[Tuple[int, bytes]]
    data: bytes

    @classmethod
    def parse(cls, number: int, body: bytes) -> Record:
        at = 1 + body[0]
        epoch, sequence, ms, count = struct.unpack_from(">QQqB", body, at)
        attributes = list(itertools.islice(fields(body, at + 25), count))
        end = at + 25 + sum(3 + len(value) for _, value in attributes)
        return cls(number, body[1:at].decode(), epoch, sequence, ms, attributes, body[end:])


@dataclass(frozen=True)
class Batch:
    """Records, or a gap: why it is one (1 trimmed, 2 damaged), and the first and the last number that are missing."""

    position: Position  # behind them, for ack
    records: List[Record]
    gap: Optional[Tuple[int, int, int]]

    @classmethod
    def parse(cls, of: bytes, number: int, content: bytes) -> Batch:
        if content[0] == GAP:
            return cls(Position(of, number, NOTHING_THERE), [], struct.unpack_from(">BQQ", content, 1))
        if content[0] != RECORDS:
            raise ConnectionError("a Deliver of unknown type %d" % content[0])
        records, at = [], 5
        while at < len(content):
            ident, size = struct.unpack_from(">QI", content, at)
            records.append(Record.parse(ident, content[at + 12:at + 12 + size]))
            at += 12 + size
        return cls(Position(of, number, struct.unpack_from(">I", content, 1)[0]), records, None)


class Reader:
    """Gives batches without end, each record at least once, and reconnects. For one thread.

        with Reader(("127.0.0.1", 7100), "copy", start=FIRST) as reader:
            for batch in reader:
                for record in batch.records:
                    print(record.client, record.data)
                reader.ack(batch.position)

    start is for a name of which nothing is stored; at is its time or number. own overrides what is stored.
    """

    def __init__(self, address: Address, name: str, token: str = "", tls: Optional[ssl.SSLContext] = None,
                 start: int = STORED, at: int = 0, client: str = "", prefix: str = "", share: int = 0, shares: int = 1,
                 window: int = 0, own: Optional[Position] = None, topic: str = ""):
        self.address, self.name, self.token, self.tls = address, name.encode(), token.encode(), tls
        self.start, self.at, self.client, self.prefix, self.topic = start, at, client.encode(), prefix.encode(), topic.encode()
        self.share, self.shares, self.window, self.own = share, shares, window, own
        self.instance = struct.pack(">Q", random.SystemRandom().getrandbits(63) | 1)
        self.given: Optional[Position] = None  # behind what this run has been given
        self.acked: Optional[Position] = None
        self.connection: Optional[Connection] = None
        self.yields, self.pause = False, 0.05

    def __iter__(self) -> Iterator[Batch]:
        while True:
            try:
                batch = self.batch(self.connection or self.open())
            except (OSError, struct.error) as lost:
                log.warning("trying again: %s", lost)
                self.drop()
                if isinstance(lost, Moved):
                    if self.yields:
                        raise Refused("another program reads under this name") from lost
                    self.yields = True
                pause = 3 if self.yields else self.pause * random.uniform(0.5, 1)
                time.sleep(lost.pause if isinstance(lost, Away) else pause)
                self.pause = min(2 * self.pause, 5)
                continue
            self.pause = 0.05
            yield batch

    def ack(self, position: Position) -> None:
        """Acknowledges every record up to a batch's position: honed stores that within a second."""
        before = self.acked.number if self.acked else 0
        if self.given and before < position.number <= self.given.number:  # else an operator has moved the reader back
            self.acked = position
        try:
            if self.connection:
                self.say(self.connection)
        except OSError:
            self.drop()  # and say it on the next connection

    def close(self) -> None:
        """Waits until the server has noted the last acknowledgement, and ends the connection."""
        try:
            while self.connection and self.acked and self.noted < self.acked.number:
                self.receive(self.connection)
        except (OSError, struct.error, Refused):
            pass  # so the last records may come again
        self.drop()

    def drop(self) -> None:
        """Ends the connection at once."""
        if self.connection:
            self.connection.close()
            self.connection = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self.drop() if error else self.close()

    def open(self) -> Connection:
        """Connects and says what to read: on from where this run was, unless an operator has moved the reader."""
        self.connection = connection = Connection(self.address, self.tls)
        opening = struct.pack(">4sBBQHHIB", b"hgr1", STORED if self.given else self.start, YIELD if self.yields else 0, self.at,
                              self.share, self.shares, self.window, len(self.name))
        opening += self.name + struct.pack(">H", len(self.token)) + self.token + field(INSTANCE, self.instance)
        own = self.acked if self.own and self.acked else self.own
        for kind, value in (CLIENT, self.client), (PREFIX, self.prefix), (TOPIC, self.topic), (OWN, own), (RESUME, self.given):
            if value:
                opening += field(kind, bytes(value))
        answer = connection.open(opening)
        magic, self.log, number, self.generation, self.allowed, _, _, idle = struct.unpack_from(">4s16sQQIHHI", answer)
        if magic != b"hgr1":
            raise ConnectionError("not the answer to a reader")
        if not self.given or self.given.number != number:
            self.given, self.acked = Position(self.log, number), None
        self.taken, self.said, self.noted, self.yields = 0, 0, 0, False
        connection.keep(idle)
        if self.acked:
            self.say(connection)
        return connection

    def receive(self, connection: Connection) -> Frame:
        """The next frame. Remembers what the server has noted."""
        command, number, result, content = connection.receive()
        check(result, content)
        if command == SUBMIT_ACK:
            self.noted = number
        return command, number, result, content

    def batch(self, connection: Connection) -> Batch:
        """The next batch on this connection."""
        command = 0
        while command != DELIVER:
            command, number, _, content = self.receive(connection)
        batch = Batch.parse(self.log, number, content)
        self.given, self.taken = batch.position, self.taken + len(content)
        if self.taken - self.said >= self.allowed // 4:
            self.say(connection)
        return batch

    def say(self, connection: Connection) -> None:
        """Tells the server what is done and what has been taken."""
        done, self.said = self.acked.number if self.acked else 0, self.taken
        connection.send(frame(SUBMIT, done, struct.pack(">QQQ", self.generation, done, self.taken)))
