package framed

import (
	"errors"
	"fmt"

	"github.com/hone-go/hone/wire"
)

// Refusal is an error with content. A handler returns one, or passes it to Reply.Fail, to
// send the client more than a code, such as when to retry. It wraps its Result. Client
// and Mux return the Result as their error, and the content as that of any reply.
type Refusal struct {
	Result  wire.Result // Zero: wire.Failed.
	Content []byte      // copied when it is sent
}

// Error returns the result's name but not the content, which may be confidential.
func (r *Refusal) Error() string { return fmt.Sprintf("framed: refused: %v", r.Unwrap()) }

// Unwrap returns the result as an error.
func (r *Refusal) Unwrap() error {
	if r.Result == wire.OK {
		return wire.Failed
	}
	return r.Result
}

// contentOf returns the content of a Refusal in err.
func contentOf(err error) []byte {
	if r, ok := errors.AsType[*Refusal](err); ok && r != nil {
		return r.Content
	}
	return nil
}
