// Package request is a request as echo passes it to handlers: a pointer, whose memory a pool may give to
// the next request.
package request

import "net/http"

// Context is one request.
type Context struct {
	w      http.ResponseWriter
	r      *http.Request
	store  map[string]any
	names  []string
	values []string
}

// New allocates a Context with room for its parameters.
func New() *Context {
	return &Context{store: make(map[string]any), names: make([]string, 0, 4), values: make([]string, 4)}
}

// Reset makes it the context of a request.
func (c *Context) Reset(w http.ResponseWriter, r *http.Request) {
	c.w, c.r, c.names = w, r, c.names[:0]
	clear(c.store)
}

// SetParam sets the path's parameter.
func (c *Context) SetParam(value string) { c.values[0] = value }

// Param returns it.
func (c *Context) Param() string { return c.values[0] }

// NoContent answers with 204.
func (c *Context) NoContent() { c.w.WriteHeader(http.StatusNoContent) }
