#!/usr/bin/env python3
"""A device: stores each line of standard input in a file, sends it to honed, and forgets it when honed has stored it.
Written from docs/gateway.md alone. It goes on after a restart of itself, of honed and of the network, and ends when
input has ended and honed has everything. It needs Python 3 and nothing else.
"""
import argparse
import random
import select
import socket
import sqlite3
import ssl
import struct
import sys
import threading
import time

CONN, SUBMIT, CONN_ACK, SUBMIT_ACK = 0x01, 0x02, 0x81, 0x82
OK, MOVED = 0, 69
FINAL = {2: "malformed", 6: "unauthorised", 64: "fenced", 65: "expired", 66: "level", 67: "gap", 68: "regressed", 70: "too many"}


class Refused(Exception):
    """The server does not want this session any more, so trying again is useless."""


def crc32c(data, crc):
    crc ^= 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


class Device:
    """put(data) stores a record; run(), in a thread, sends what is stored. Only that thread uses the connection."""

    def __init__(self, address, name, token="", store="device.db", context=None):
        self.address, self.name, self.token, self.context = address, name.encode(), token.encode(), context
        self.instance = struct.pack(">Q", random.SystemRandom().getrandbits(63) | 1)
        self.woken, self.wake = socket.socketpair()
        self.wake.setblocking(False)
        self.welcomed, self.moved, self.window, self.most, self.beat = False, 0, 0, 65523, 20
        self.changed = threading.Condition()  # guards what follows
        self.why = None
        self.store = sqlite3.connect(store, check_same_thread=False)
        self.store.execute("create table if not exists queue (seq integer primary key, data blob)")
        self.store.execute("create table if not exists session (epoch integer, next integer, sum integer)")
        row = self.store.execute("select epoch, next, sum from session").fetchone()
        if not row:
            row = (0, 1, 0)
            self.store.execute("insert into session values (0, 1, 0)")
        self.store.commit()
        self.epoch, self.next, self.sum = row  # next: the lowest number without an acknowledgement
        self.waiting = dict(self.store.execute("select seq, data from queue"))
        self.acked = set()

    def put(self, data):
        """Stores a record in the file, to be sent as soon as possible."""
        if len(data) > self.most:
            raise ValueError("a record may have %d bytes" % self.most)
        with self.changed:
            seq = self.next + len(self.waiting)
            self.store.execute("insert into queue values (?, ?)", (seq, data))
            self.store.commit()
            self.waiting[seq] = data
        try:
            self.wake.send(b"!")
        except BlockingIOError:
            pass  # run has yet to read the ones before

    def flush(self):
        """Waits until honed has everything; the error if it never will."""
        with self.changed:
            self.changed.wait_for(lambda: self.why or not self.waiting)
            if self.why:
                raise self.why

    def run(self):
        pause = 0.05
        while True:
            try:
                with socket.create_connection(self.address, timeout=30) as raw:
                    self.socket = self.context.wrap_socket(raw, server_hostname=self.address[0]) if self.context else raw
                    self.open()
                    pause = 0.05
                    while True:
                        self.answer(*self.receive())
            except Refused as why:
                with self.changed:
                    self.why = why
                    self.changed.notify_all()
                return
            except (OSError, struct.error) as lost:
                print("device.py: trying again: %s" % lost, file=sys.stderr)
            time.sleep(3 if self.moved else pause * random.uniform(0.5, 1))
            pause = min(2 * pause, 5)

    def open(self):
        """Says hello, and takes what the welcome acknowledges."""
        self.unread, self.window = b"", 0
        hello = b"hgw2" + struct.pack(">BQQB", 0, self.epoch, self.next, len(self.name)) + self.name
        hello += struct.pack(">H", len(self.token)) + self.token + struct.pack(">BH", 1, 8) + self.instance
        if self.welcomed:
            hello += struct.pack(">BH", 2, 0)
        self.send(CONN, 1, hello)
        command, _, result, content = self.receive()
        if command != CONN_ACK or result != OK:
            self.answer(command, 0, result, content)
        _, epoch, last, window, self.most, idle, _ = struct.unpack_from(">BQQIIII", content, 4)
        self.beat = min(20, max(1, (idle or 60) / 3))
        with self.changed:
            if last >= self.next + len(self.waiting):
                raise Refused("record %d is stored, which this device has not sent: another one uses its name" % last)
            total = self.sum
            for seq in range(self.next, last + 1):
                total = crc32c(struct.pack(">Q", seq) + self.waiting[seq], total)
            if content[37:40] == b"\x01\x00\x04" and content[40:44] != struct.pack(">I", total):
                raise Refused("other records are stored than this device has sent: another one uses its name")
            self.epoch, self.welcomed, self.window, self.sent = epoch, True, window, last
            self.acked = set(range(self.next, last + 1))
            self.forget()
        self.pump()

    def answer(self, command, ident, result, content):
        words = content.decode("utf-8", "replace")
        if result in FINAL:
            raise Refused("%s: %s" % (FINAL[result], words))
        if result != OK:
            self.moved += result == MOVED
            if self.moved > 5:
                raise Refused("another program keeps taking the session")
            raise OSError("result %d: %s" % (result, words))
        if command == SUBMIT_ACK:
            self.moved = 0
            with self.changed:
                self.acked.add(ident)
                self.forget()
            self.pump()

    def forget(self):
        """Removes what is acknowledged from the file."""
        while self.next in self.acked:
            self.acked.remove(self.next)
            self.sum = crc32c(struct.pack(">Q", self.next) + self.waiting.pop(self.next), self.sum)
            self.next += 1
        self.store.execute("update session set epoch = ?, next = ?, sum = ?", (self.epoch, self.next, self.sum))
        self.store.execute("delete from queue where seq < ?", (self.next,))
        self.store.commit()
        self.changed.notify_all()

    def pump(self):
        """Sends what the window allows."""
        with self.changed:
            most = min(self.next + self.window, self.next + len(self.waiting))
            records = [(seq, self.waiting[seq]) for seq in range(self.sent + 1, most)] if self.window else []
        for seq, data in records:
            self.send(SUBMIT, seq, data)
            self.sent = seq

    def send(self, command, ident, content=b""):
        self.socket.sendall(struct.pack(">IBQ", 13 + len(content), command, ident) + content)

    def receive(self):
        """The next frame: command, id, result and content. Meanwhile it sends what put has stored, and heartbeats."""
        silent, due = 0, time.monotonic() + self.beat
        while True:
            if len(self.unread) >= 4:
                length = struct.unpack_from(">I", self.unread)[0]
                if len(self.unread) >= length:
                    whole, self.unread = self.unread[:length], self.unread[length:]
                    command, ident, result = struct.unpack_from(">BQB", whole, 4)
                    return command, ident, result, whole[14:]
            ready = [self.socket]
            if not (self.context and self.socket.pending()):
                ready = select.select([self.socket, self.woken], [], [], max(0, due - time.monotonic()))[0]
            if self.woken in ready:
                self.woken.recv(4096)
                self.pump()
            if self.socket in ready:
                more = self.socket.recv(1 << 16)
                if not more:
                    raise OSError("closed by the server")
                self.unread, silent, due = self.unread + more, 0, time.monotonic() + self.beat
            elif time.monotonic() >= due:  # whether or not put has woken it meanwhile
                silent, due = silent + 1, time.monotonic() + self.beat
                if silent > 2:
                    raise OSError("the server is silent")
                self.send(CONN, 2)  # a heartbeat


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("host")
    flags.add_argument("port", type=int)
    flags.add_argument("name")
    flags.add_argument("--token-file")
    flags.add_argument("--ca", help="connect with TLS, and trust the certificate authorities in this PEM file")
    flags.add_argument("--cert", help="the device's certificate and key, a PEM file")
    flags.add_argument("--store", default="device.db", help="the file of the session and of what is not acknowledged")
    args = flags.parse_args()
    token = open(args.token_file).read().strip() if args.token_file else ""
    context = ssl.create_default_context(cafile=args.ca) if args.ca else None
    if args.cert:
        context.load_cert_chain(args.cert)
    device = Device((args.host, args.port), args.name, token, args.store, context)
    threading.Thread(target=device.run, daemon=True).start()
    try:
        for line in sys.stdin.buffer:
            device.put(line.rstrip(b"\n"))
        device.flush()
    except Refused as why:
        sys.exit("device.py: stopped: %s" % why)


if __name__ == "__main__":
    main()
