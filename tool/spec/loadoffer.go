package spec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hone-go/hone/tool/load/offer"
)

// withoutValue replaces the beginning of an error with what, because the flag's own error already
// has the value.
func withoutValue(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s; %w", what, errors.Unwrap(err))
}

// contentSizeFlag is a content size, or a distribution of sizes.
type contentSizeFlag struct {
	bytes Size
	sizes offer.Sizes
	files *files
}

// Set parses a size or a distribution.
func (f *contentSizeFlag) Set(text string) error {
	if strings.Contains(text, ":") {
		return withoutValue("not sizes", f.sizes.Read(text, f.files.read))
	}
	f.sizes = offer.Sizes{}
	return f.bytes.Set(text)
}

// String returns the size or the distribution.
func (f *contentSizeFlag) String() string {
	if !f.sizes.None() {
		return f.sizes.String()
	}
	return f.bytes.String()
}

// Type returns the value's name in help texts.
func (f *contentSizeFlag) Type() string { return "SIZE" }
