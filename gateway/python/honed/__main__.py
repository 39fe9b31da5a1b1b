"""python -m honed send: each line of standard input is a message. python -m honed read: prints messages as JSON."""
import argparse
import base64
import json
import os
import ssl
import sys
import time

from . import FIRST, NEXT, STORED, Batch, Client, Reader, Refused


def send(args: argparse.Namespace) -> None:
    with Client(args.address, args.name, args.store, args.token, args.tls) as client:
        def complain() -> None:
            print("%d messages have no acknowledgement yet" % (client.stored - client.done), file=sys.stderr)

        done, since = 0, time.monotonic()
        for line in sys.stdin.buffer:
            now = time.monotonic()
            if client.done > done or client.done == client.stored:
                done, since = client.done, now
            client.put(line.rstrip(b"\n"))
            if now - since > 5:  # a slow disk, or one that is full: honed's log says which
                complain()
                since = now
        while not client.flush(5):
            complain()


def read(args: argparse.Namespace) -> None:
    share, shares = map(int, args.share.split("/"))
    start = {"stored": STORED, "first": FIRST, "next": NEXT}[args.start]
    printed = 0
    with Reader(args.address, args.name, args.token, args.tls, start, client=args.client, prefix=args.prefix,
                topic=args.topic, share=share, shares=shares) as reader:
        for batch in reader:
            show(batch)
            reader.ack(batch.position)
            printed += len(batch.records)
            if args.count and printed >= args.count:
                break


def show(batch: Batch) -> None:
    def place(number: int) -> str:
        return "%d.%d" % (number >> 16, number & 0xffff)

    for r in batch.records:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(r.time // 1000)) + ".%03dZ" % (r.time % 1000)
        print(json.dumps({"number": place(r.number), "client": r.client, "epoch": r.epoch, "seq": r.sequence,
                          "time": when, "data": base64.b64encode(r.data).decode()}))
    if batch.gap:
        print(json.dumps({"gap": batch.gap[0], "from": place(batch.gap[1]), "to": place(batch.gap[2])}))
    sys.stdout.flush()


def main() -> None:
    flags = argparse.ArgumentParser(prog="python -m honed", description=__doc__)
    verbs = flags.add_subparsers(required=True, metavar="send|read")
    sending, reading = verbs.add_parser("send", help="send lines"), verbs.add_parser("read", help="print messages")
    for verb, does in (sending, send), (reading, read):
        verb.set_defaults(does=does)
        verb.add_argument("address", metavar="HOST:PORT")
        verb.add_argument("name", help="of this client or reader")
        verb.add_argument("--token-file")
        verb.add_argument("--ca", help="connect with TLS, and trust the certificate authorities in this PEM file")
        verb.add_argument("--cert", help="connect with TLS, and this certificate and key, a PEM file")
    sending.add_argument("--store", default=":memory:", help="the file that keeps the session and what is not acknowledged; "
                         "without it, whatever is not acknowledged is lost with this process")
    reading.add_argument("--start", default="first", choices=("stored", "first", "next"), help="for a name of which nothing is stored")
    reading.add_argument("--client", default="", help="only this client's messages")
    reading.add_argument("--prefix", default="", help="only those of clients whose names begin so")
    reading.add_argument("--topic", default="", help="only those whose topic begins so")
    reading.add_argument("--share", default="0/1", metavar="I/N", help="only share I, from 0 on, of N")
    reading.add_argument("--count", type=int, default=0, help="end after so many messages; 0: never")
    args = flags.parse_args()
    host, _, port = args.address.rpartition(":")
    args.address = host.strip("[]"), int(port)
    args.token = open(args.token_file).read().strip() if args.token_file else ""
    args.tls = ssl.create_default_context(cafile=args.ca) if args.ca or args.cert else None
    if args.cert:
        args.tls.load_cert_chain(args.cert)
    try:
        args.does(args)
    except Refused as why:
        sys.exit("refused: %s" % why)
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(1)  # without another error for what is not printed yet


if __name__ == "__main__":
    main()
