package main

import (
	"sync"

	"github.com/hone-go/hone/engine"
)

// mostChannels is the largest number of channels of a connection.
const mostChannels = 1000

// hub is who is subscribed to what. Messages are pushed while holding mu, so that all subscribers of a
// channel receive them in one order. A push does not wait for a peer: one that reads too slowly is
// disconnected by the engine, and counted as slow_reader.
type hub struct {
	mu        sync.Mutex
	listeners map[string]map[engine.Conn]bool
	listens   map[engine.Conn]map[string]bool
	message   []byte // memory for the next message
}

func newHub() *hub {
	return &hub{listeners: make(map[string]map[engine.Conn]bool), listens: make(map[engine.Conn]map[string]bool)}
}

// subscribe returns how many channels the connection then has, or false if it has too many.
func (h *hub) subscribe(c engine.Conn, channel []byte) (n int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := h.listens[c]
	if !mine[string(channel)] && len(mine) == mostChannels {
		return len(mine), false
	}
	if mine == nil {
		mine = make(map[string]bool)
		h.listens[c] = mine
	}
	name := string(channel)
	mine[name] = true
	if h.listeners[name] == nil {
		h.listeners[name] = make(map[engine.Conn]bool)
	}
	h.listeners[name][c] = true
	return len(mine), true
}

// unsubscribe returns how many channels the connection still has.
func (h *hub) unsubscribe(c engine.Conn, channel []byte) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(c, string(channel))
	return len(h.listens[c])
}

// leave removes a connection from all its channels.
func (h *hub) leave(c engine.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.listens[c] {
		h.remove(c, channel)
	}
}

func (h *hub) remove(c engine.Conn, channel string) {
	if delete(h.listeners[channel], c); len(h.listeners[channel]) == 0 {
		delete(h.listeners, channel)
	}
	if delete(h.listens[c], channel); len(h.listens[c]) == 0 {
		delete(h.listens, c)
	}
}

// channels returns what a connection is subscribed to.
func (h *hub) channels(c engine.Conn) (all [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.listens[c] {
		all = append(all, []byte(channel))
	}
	return all
}

// publish pushes a message to all subscribers of a channel, and returns how many there are.
func (h *hub) publish(channel, text []byte) (receivers int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to := h.listeners[string(channel)]
	if len(to) == 0 {
		return 0
	}
	h.message = append(h.message[:0], "*3\r\n$7\r\nmessage\r\n"...)
	h.message = appendBulk(appendBulk(h.message, channel), text)
	for c := range to {
		if c.Push(h.message) == nil {
			receivers++
		}
	}
	return receivers
}
