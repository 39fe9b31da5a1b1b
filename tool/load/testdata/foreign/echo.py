"""A server whose messages have a length of four bytes, the highest first, and then
an id of eight bytes and a word. The word says what becomes of the request:

    echo          it is sent back, behind those that came with it and after it
    other         another word is sent back
    strange       it is sent back under an id that nobody has used
    twice:N       like echo, but the Nth and later ones of a connection are sent back twice
    garbage:N     like echo, but the Nth and later ones become a length that no message has
    close:N       like echo, but the connection ends with the Nth
    stall:N       like echo, but the Nth and later ones are never answered

It prints its port, and for every line of its input the requests that it has had, the
answers that it has given and those of them before which it let others go. It ends with
its input.
"""

import asyncio
import sys

had = given = passed = 0


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.held, self.count = transport, b"", 0

    def data_received(self, data):
        self.held += data
        requests = []
        while len(self.held) >= 4:
            end = 4 + int.from_bytes(self.held[:4], "big")
            if len(self.held) < end:
                break
            requests.append(self.held[4:end])
            self.held = self.held[end:]
        global passed
        answers = [answer for request in requests for answer in self.answers(request)]
        passed += max(len(answers) - 1, 0)
        # What has come together is answered the other way round.
        self.transport.write(b"".join(reversed(answers)))

    def answers(self, request):
        global had, given
        had += 1
        self.count += 1
        number, word = request[:8], request[8:]
        word, _, limit = word.partition(b":")
        reached = limit and self.count >= int(limit)
        if word == b"close" and reached:
            self.transport.close()
            return []
        if word == b"stall" and reached:
            return []
        if word == b"garbage" and reached:
            return [b"\xff\xff\xff\xff"]
        given += 1
        if word == b"other":
            return [framed(number + b"wrong")]
        if word == b"strange":
            return [framed(b"\x7f" * 8 + word)]
        if word == b"twice" and reached:
            given += 1
            return [framed(request), framed(request)]
        return [framed(request)]


def framed(content):
    return len(content).to_bytes(4, "big") + content


async def serve():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while await orders.readline():
        print([had, given, passed], flush=True)


asyncio.run(serve())
