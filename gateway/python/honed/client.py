"""The client: sends messages, and keeps them in a file until honed has stored them. docs/gateway.md has the protocol."""
from __future__ import annotations

import logging
import random
import socket
import sqlite3
import ssl
import struct
import threading
from typing import Optional, Set

from .wire import SUBMIT, SUBMIT_ACK, WOKEN, Address, Away, Connection, Frame, Moved, Refused, check, field, fields, frame

log = logging.getLogger("honed")

CRC = list(range(256))
for _ in range(8):
    CRC = [c >> 1 ^ (0x82f63b78 if c & 1 else 0) for c in CRC]


def crc32c(data: bytes, crc: int) -> int:
    """The CRC-32C of what crc is of, followed by data."""
    crc ^= 0xffffffff
    for byte in data:
        crc = CRC[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


class Client:
    """put stores a message in a file and returns. A thread sends it, and removes it when honed has stored it.

        with Client(("127.0.0.1", 7100), "meter-7", "meter-7.db") as client:
            client.put(b"21.5")
            client.flush()

    honed stores each message once and in order, also what one run of the program leaves in the file for the
    next. A file is of one client and of one program at a time; ":memory:" instead begins a new session.
    """

    def __init__(self, address: Address, name: str, store: str, token: str = "",
                 tls: Optional[ssl.SSLContext] = None, level: int = 0):
        self.address, self.name, self.token, self.tls, self.level = address, name.encode(), token.encode(), tls, level
        self.instance = struct.pack(">Q", random.SystemRandom().getrandbits(63) | 1)
        self.db = sqlite3.connect(store, check_same_thread=False)
        self.db.execute("pragma locking_mode = exclusive")
        with self.db:
            self.db.execute("begin exclusive")
            self.db.execute("create table if not exists queue (seq integer primary key, data blob)")
            self.db.execute("create table if not exists session (name text, epoch integer, done integer, sum integer)")
            if not self.db.execute("select * from session").fetchone():
                self.db.execute("insert into session values (?, 0, 0, 0)", (name,))
        # Messages up to done are acknowledged and have this sum; those up to stored are in the file.
        owner, self.epoch, self.done, self.sum = self.db.execute("select * from session").fetchone()
        self.stored: int = self.db.execute("select max(seq) from queue").fetchone()[0] or self.done
        if owner != name:
            raise ValueError("%s is the file of client %s" % (store, owner))
        self.acked: Set[int] = set()  # those above done
        self.changed = threading.Condition()  # guards the file and what is said about it
        self.closing = False
        self.why: Optional[Exception] = None  # the thread has ended
        # For the thread alone. Messages up to sent went over this connection; most is the bytes of one.
        self.welcomed, self.pause, self.sent, self.window, self.most = False, 0.05, 0, 0, 65523
        self.moved = 0  # how often another connection took the session from one that had it, without an acknowledgement between
        self.woken, self.wake = socket.socketpair()
        self.woken.setblocking(False)
        self.wake.setblocking(False)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def put(self, data: bytes) -> int:
        """Stores a message in the file, to be sent as soon as possible, and returns its number: 1, 2, 3 …"""
        with self.changed:
            if self.why:
                raise self.why
            if len(data) > self.most:
                raise ValueError("a message may have %d bytes" % self.most)
            seq = self.stored + 1
            with self.db:
                self.db.execute("insert into queue values (?, ?)", (seq, data))
            self.stored = seq
        self.stir()
        return seq

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Waits until honed has what was put before, and says whether it has. Raises Refused if it never will."""
        with self.changed:
            until = self.stored
            self.changed.wait_for(lambda: self.why or self.done >= until, timeout)
            if self.why:
                raise self.why
            return bool(self.done >= until)

    def close(self) -> None:
        """Ends the connection, after up to 30 s if a server does not answer. What is not acknowledged stays in the file."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.stir()
        self.thread.join()
        for each in self.db, self.woken, self.wake:
            each.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stir(self) -> None:
        """Wakes the thread."""
        try:
            self.wake.send(b"!")
        except BlockingIOError:
            pass  # it has yet to read the ones before

    def run(self) -> None:
        """Connects again and again, until that is useless."""
        while not self.closing and not self.why:
            opened, away = False, 0.0
            try:
                with Connection(self.address, self.tls) as connection:
                    self.open(connection)
                    opened = True
                    self.converse(connection)
            except (OSError, struct.error) as lost:
                log.warning("trying again: %s", lost)
                self.moved += opened and isinstance(lost, Moved)
                away = lost.pause if isinstance(lost, Away) else 0
                if self.moved > 5:
                    self.end(Refused("another program keeps taking the session"))
            except Exception as why:
                self.end(why)
            with self.changed:
                pause = away or (3 if self.moved else self.pause * random.uniform(0.5, 1))
                self.changed.wait_for(lambda: self.closing or self.why, pause)
            self.pause = min(2 * self.pause, 5)

    def end(self, why: Exception) -> None:
        """Has put and flush raise why."""
        with self.changed:
            self.why = why
            self.changed.notify_all()

    def open(self, connection: Connection) -> None:
        """Says hello, compares what the server has stored with the file, and takes it as acknowledged."""
        hello = struct.pack(">4sBQQB", b"hgw2", self.level, self.epoch, self.done + 1, len(self.name)) + self.name
        hello += struct.pack(">H", len(self.token)) + self.token + field(1, self.instance)
        if self.welcomed:
            hello += field(2, b"")
        welcome = connection.open(hello)
        magic, _, epoch, last, self.window, self.most, idle, _ = struct.unpack_from(">4sBQQIIII", welcome)
        if magic != b"hgw2" or self.epoch not in (0, epoch):
            raise ConnectionError("not the welcome to this session")
        with self.changed:
            if last > self.stored:
                raise Refused("message %d is stored, which this program has not sent: another one uses its name" % last)
            if last < self.done:  # at level received, a crash may lose what is acknowledged
                self.sum = None
            ours, theirs = self.summed(last), dict(fields(welcome, 37)).get(1)
            if ours is not None and theirs and theirs != struct.pack(">I", ours):
                raise Refused("other messages are stored than this program has sent: another one uses its name")
            self.epoch, self.welcomed, self.acked, self.sent = epoch, True, set(), max(last, self.done)
            self.remove(self.sent)
        connection.keep(idle, self.woken)

    def converse(self, connection: Connection) -> None:
        """Sends what the window allows and takes what comes, until the connection is lost."""
        while not self.closing:
            while self.send_more(connection):
                pass
            found: Optional[Frame] = connection.receive()
            if found == WOKEN:
                self.woken.recv(4096)
            while found:  # and what has arrived with it: one transaction removes many messages
                command, ident, result, content = found
                check(result, content)
                if command == SUBMIT_ACK and self.done < ident <= self.sent:
                    self.acked.add(ident)
                    self.moved, self.pause = 0, 0.05
                found = connection.arrived()
            upto = self.done
            while upto + 1 in self.acked:
                upto += 1
                self.acked.remove(upto)
            if upto > self.done:
                with self.changed:
                    self.remove(upto)

    def send_more(self, connection: Connection) -> bool:
        """Sends some messages, and says whether there were any."""
        with self.changed:
            upto = min(self.sent + 64, self.done + self.window)
            messages = self.db.execute("select * from queue where seq > ? and seq <= ? order by seq", (self.sent, upto)).fetchall()
        connection.send(b"".join(frame(SUBMIT, seq, data) for seq, data in messages))
        self.sent += len(messages)
        return bool(messages)

    def summed(self, upto: int) -> Optional[int]:
        """The checksum of all messages up to one, if it is known."""
        total: Optional[int] = self.sum
        for seq, data in self.db.execute("select * from queue where seq <= ? order by seq", (upto,)):
            total = None if total is None else crc32c(struct.pack(">Q", seq) + data, total)
        return total

    def remove(self, upto: int) -> None:
        """Removes what is acknowledged from the file."""
        with self.db:
            self.sum, self.done = self.summed(upto), upto
            self.db.execute("delete from queue where seq <= ?", (upto,))
            self.db.execute("update session set epoch = ?, done = ?, sum = ?", (self.epoch, self.done, self.sum))
        self.changed.notify_all()
