package client

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

// WS is what to ask a server of WebSocket: to echo messages. Each carries an id, so that an
// answer is known as that of its request.
type WS struct{ Path string }

// A frame's first bytes, and how long its payload may be for a length of 7 or 16 bits.
const (
	binaryFrame = 0x82
	closeFrame  = 0x88
	pingFrame   = 0x89
	pongFrame   = 0x8a
	masked      = 0x80
	shortest    = 125
	longestWS   = 1<<16 - 1
	keySize     = 4
)

// appendWSHead appends a frame's first bytes.
func appendWSHead(dst []byte, first, mask byte, size int) []byte {
	if size <= shortest {
		return append(dst, first, mask|byte(size))
	}
	return binary.BigEndian.AppendUint16(append(dst, first, mask|shortest+1), uint16(size))
}

// WSFrame is a frame as clients send it.
func WSFrame(first byte, payload []byte) []byte {
	b := appendWSHead(nil, first, masked, len(payload))
	var key [keySize]byte
	rand.Read(key[:]) // which never fails
	b = append(b, key[:]...)
	for i, c := range payload {
		b = append(b, c^key[i%keySize])
	}
	return b
}

// newWSKind has a binary message of this content. All requests have the same key, so that
// they are masked once.
func newWSKind(content []byte, depth int) (k kind) {
	request := WSFrame(binaryFrame, content)
	k.asks = len(request) - len(content)
	key := uint64(binary.BigEndian.Uint32(request[k.asks-keySize:]))
	k.key = key<<32 | key
	k.repeat(request, depth)
	k.answer = appendWSHead(nil, binaryFrame, 0, len(content))
	k.answers = len(k.answer)
	k.answer = append(k.answer, content...)
	return k
}

// otherFrame takes a frame that is not the usual answer. used is 0 when it has not all come.
func (l *loop) otherFrame(c *conn, in []byte) (used int, err error) {
	f, payload, used, err := cutWS(in)
	if used == 0 || err != nil {
		return 0, err
	}
	switch f {
	case closeFrame:
		return 0, fmt.Errorf("the server sends a Close frame: %q", payload)
	case pingFrame:
		return used, l.put(c, WSFrame(pongFrame, payload))
	case pongFrame:
	default:
		l.wrong++
	}
	return used, nil
}

// cutWS takes the first frame of a server's off the front of in; used is 0 when it has not
// all come.
func cutWS(in []byte) (first byte, payload []byte, used int, err error) {
	if len(in) < 2 {
		return 0, nil, 0, nil
	}
	size, head := int(in[1]), 2
	switch {
	case size > shortest+1:
		return 0, nil, 0, fmt.Errorf("the server sends something that is not a frame of an answer: %x", in[:2])
	case size == shortest+1 && len(in) < 4:
		return 0, nil, 0, nil
	case size == shortest+1:
		size, head = int(binary.BigEndian.Uint16(in[2:])), 4
	}
	if len(in) < head+size {
		return 0, nil, 0, nil
	}
	return in[0], in[head : head+size], head + size, nil
}

// Handshake is a request for an upgrade, and what its answer must contain.
func Handshake(path string) (request, accept string) {
	var nonce [16]byte
	rand.Read(nonce[:])
	key := base64.StdEncoding.EncodeToString(nonce[:])
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	request = "GET " + path + " HTTP/1.1\r\nHost: localhost:8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\n\r\n"
	return request, ": " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
}

// upgrade makes fd a connection of WebSocket, within dialTime for each step.
func upgrade(fd int, path string) error {
	request, accept := Handshake(path)
	w := &wires{fd: fd}
	if _, err := w.Write([]byte(request)); err != nil {
		return err
	}
	var head [4 << 10]byte
	for held := 0; held < len(head); {
		n, err := w.Read(head[held:])
		if err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		held += n
		end := bytes.Index(head[:held], []byte("\r\n\r\n"))
		switch {
		case end < 0:
			continue
		case !bytes.HasPrefix(head[:], []byte("HTTP/1.1 101 ")) || !bytes.Contains(head[:end+2], []byte(accept)):
			return fmt.Errorf("the server does not upgrade: %.60q", head[:held])
		case held > end+4:
			return errors.New("the server sends more than an upgrade")
		}
		return nil
	}
	return errors.New("the server sends a head without an end")
}
