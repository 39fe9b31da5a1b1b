package service

import "sync"

// PushedSize is the length of a message that goes to everybody.
const PushedSize = 256

// Push is the line on a server's standard input that has it push a message of PushedSize
// bytes to every connection of its crowd, and answer with a line when all are told. Count is answered with how many
// connections the crowd has.
const (
	Push  = "push"
	Count = "count"
)

// Message is what is pushed.
func Message() []byte {
	message := make([]byte, PushedSize)
	for i := range message {
		message[i] = 'a' + byte(i%26)
	}
	return message
}

// Crowd is the connections that a push goes to, where the library keeps none.
type Crowd[C comparable] struct {
	mu  sync.Mutex
	all map[C]struct{}
}

// Add adds a connection.
func (c *Crowd[C]) Add(one C) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[C]struct{})
	}
	c.all[one] = struct{}{}
}

// Remove removes one, if it is there.
func (c *Crowd[C]) Remove(one C) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, one)
}

// Each calls with every connection of this moment.
func (c *Crowd[C]) Each(with func(C)) {
	for _, one := range c.List() {
		with(one)
	}
}

// List is the connections of this moment.
func (c *Crowd[C]) List() []C {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]C, 0, len(c.all))
	for one := range c.all {
		list = append(list, one)
	}
	return list
}

// Len is how many there are.
func (c *Crowd[C]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// Pusher is what a server program does for the lines above; it sets both before it is ready.
type Pusher struct {
	Push  func(message []byte)
	Count func() int
}
