package main

import (
	"fmt"
	"strconv"

	"github.com/hone-go/hone/engine"
)

// Protocol serves a small part of what Redis serves: keys with values, and channels.
type Protocol struct {
	Most  int // the size of a command in bytes
	Store *store
	Hub   *hub
}

// Advance serves the complete commands at the front of in. Turn.State is the number of channels that
// the connection is subscribed to.
func (p Protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	var few [8][]byte // most commands have no more words than this, so they allocate nothing
	for used < len(in) {
		words, size, need, err := parse(in[used:], few[:0], p.Most)
		if err != nil {
			t.Out = p.Refuse(t.Out, nil, err.(engine.Reason)) // parse returns no other errors
			return used, 0, err
		}
		if need > 0 {
			return used, need, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		used += size
		if len(words) > 0 && !p.serve(t, words[0], words[1:]) {
			return used, 0, engine.ClosedHere
		}
	}
	return used, 1, nil
}

// Refuse says why the connection ends.
func (p Protocol) Refuse(dst, _ []byte, why engine.Reason) []byte {
	switch why {
	case engine.PeerClosed, engine.IdleTimeout:
		return dst // Redis says nothing either
	case engine.TooManyConns:
		return append(dst, "-ERR max number of clients reached\r\n"...)
	case engine.Malformed, engine.TooLarge:
		return fmt.Appendf(dst, "-ERR Protocol error: %v\r\n", why.String())
	}
	return fmt.Appendf(dst, "-ERR closed: %v\r\n", why.String())
}

// Ended removes the subscriptions of a connection that has ended.
func (p Protocol) Ended(c engine.Conn, state uint64, _ engine.Reason) {
	if state > 0 {
		p.Hub.leave(c)
	}
}

// arguments are how many words may follow the name of a command.
var arguments = map[string]struct {
	least, most int
	subscribed  bool // a subscriber may send it
}{
	"PING": {0, 1, true}, "ECHO": {1, 1, false}, "QUIT": {0, 0, true},
	"GET": {1, 1, false}, "SET": {2, 2, false}, "DEL": {1, mostWords, false}, "INCR": {1, 1, false},
	"PUBLISH": {2, 2, false}, "SUBSCRIBE": {1, mostWords, true}, "UNSUBSCRIBE": {0, mostWords, true},
}

// serve answers one command. It reports whether the connection stays open.
func (p Protocol) serve(t *engine.Turn, name []byte, args [][]byte) bool {
	var room [16]byte
	command := appendUpper(room[:0], name)
	switch want, known := arguments[string(command)]; {
	case !known:
		t.Out = fmt.Appendf(t.Out, "-ERR unknown command %.40q\r\n", name)
		return true
	case len(args) < want.least || len(args) > want.most:
		t.Out = fmt.Appendf(t.Out, "-ERR wrong number of arguments for %v\r\n", string(command))
		return true
	case t.State > 0 && !want.subscribed:
		t.Out = fmt.Appendf(t.Out, "-ERR %v is not allowed to a subscriber\r\n", string(command))
		return true
	}
	switch string(command) {
	case "PING":
		t.Out = p.ping(t.Out, args, t.State > 0)
	case "ECHO":
		t.Out = appendBulk(t.Out, args[0])
	case "GET":
		t.Out = p.Store.get(t.Out, args[0])
	case "SET":
		t.Out = p.Store.set(t.Out, args[0], args[1])
	case "DEL":
		t.Out = appendInt(t.Out, p.Store.del(args))
	case "INCR":
		t.Out = p.Store.incr(t.Out, args[0])
	case "PUBLISH":
		t.Out = appendInt(t.Out, p.Hub.publish(args[0], args[1]))
	case "SUBSCRIBE":
		p.subscribe(t, args)
	case "UNSUBSCRIBE":
		p.unsubscribe(t, args)
	case "QUIT":
		t.Out = append(t.Out, "+OK\r\n"...)
		return false
	}
	return true
}

// ping answers a subscriber in another form, because it expects only messages.
func (p Protocol) ping(dst []byte, args [][]byte, subscribed bool) []byte {
	switch {
	case subscribed && len(args) == 0:
		return append(dst, "*2\r\n$4\r\npong\r\n$0\r\n\r\n"...)
	case subscribed:
		return appendBulk(append(dst, "*2\r\n$4\r\npong\r\n"...), args[0])
	case len(args) == 0:
		return append(dst, "+PONG\r\n"...)
	}
	return appendBulk(dst, args[0])
}

// subscribe answers once for each channel. What others publish meanwhile comes after the answers,
// because this server has Limits.InFlight 1. With more in flight, subscribe would have to call t.Hold
// first, or a message could overtake the answer that announces its channel.
func (p Protocol) subscribe(t *engine.Turn, channels [][]byte) {
	for _, channel := range channels {
		n, ok := p.Hub.subscribe(t.Conn(), channel)
		if !ok {
			t.Out = fmt.Appendf(t.Out, "-ERR a connection may have %d channels\r\n", mostChannels)
			return
		}
		t.State = uint64(n)
		t.Out = appendChange(t.Out, "subscribe", channel, n)
	}
}

// unsubscribe without channels means all.
func (p Protocol) unsubscribe(t *engine.Turn, channels [][]byte) {
	if len(channels) == 0 {
		channels = p.Hub.channels(t.Conn())
	}
	if len(channels) == 0 {
		t.Out = append(t.Out, "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"...)
	}
	for _, channel := range channels {
		n := p.Hub.unsubscribe(t.Conn(), channel)
		t.State = uint64(n)
		t.Out = appendChange(t.Out, "unsubscribe", channel, n)
	}
}

// appendChange appends the answer to a change of subscriptions, of which n are left.
func appendChange(dst []byte, kind string, channel []byte, n int) []byte {
	dst = appendBulk(append(dst, "*3\r\n"...), []byte(kind))
	return appendInt(appendBulk(dst, channel), n)
}

func appendBulk(dst, text []byte) []byte {
	dst = strconv.AppendInt(append(dst, '$'), int64(len(text)), 10)
	dst = append(append(dst, "\r\n"...), text...)
	return append(dst, "\r\n"...)
}

func appendInt(dst []byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, ':'), int64(n), 10), "\r\n"...)
}

// appendUpper appends a name in upper case, as far as it can be the name of a command.
func appendUpper(dst, name []byte) []byte {
	for _, c := range name[:min(len(name), cap(dst))] {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
