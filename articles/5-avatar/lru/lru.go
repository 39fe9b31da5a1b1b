// Package lru is a cache that forgets what was used least recently.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps the Most entries that were used last.
type Cache[V any] struct {
	Most int

	mu    sync.Mutex
	order list.List
	at    map[string]*list.Element
}

type entry[V any] struct {
	key   string
	value V
}

// Get returns the value of a key.
func (c *Cache[V]) Get(key string) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.at[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(entry[V]).value, true
}

// Put sets the value of a key.
func (c *Cache[V]) Put(key string, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = make(map[string]*list.Element)
	}
	if old, ok := c.at[key]; ok {
		c.order.Remove(old)
	}
	c.at[key] = c.order.PushFront(entry[V]{key, value})
	if c.order.Len() > c.Most {
		delete(c.at, c.order.Remove(c.order.Back()).(entry[V]).key)
	}
}
