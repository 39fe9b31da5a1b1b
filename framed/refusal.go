package framed

import (
	"errors"
	"fmt"

	"github.com/hone-go/hone/wire"
)

// Refusal is an error with content. A handler that returns one, or gives one to
// Reply.Fail, has the client told more than a code, such as when to try again. It wraps its
// Result. A Client and a Mux return the Result as their error, and the content as that of
// any reply. The Demo dialect has no room for it.
type Refusal struct {
	Result  wire.Result // Zero: wire.Failed.
	Content []byte      // copied when it is sent
}

// Error names the result. The content is not text for everybody to read.
func (r *Refusal) Error() string { return fmt.Sprintf("framed: refused: %v", r.Unwrap()) }

// Unwrap is the result as an error.
func (r *Refusal) Unwrap() error {
	if r.Result == wire.OK {
		return wire.Failed
	}
	return r.Result
}

// contentOf is what an error has to say beside its code.
func contentOf(err error) []byte {
	if r, ok := errors.AsType[*Refusal](err); ok && r != nil {
		return r.Content
	}
	return nil
}
