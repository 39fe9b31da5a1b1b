package spec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hone-go/hone/tool/load/offer"
	"github.com/hone-go/hone/tool/load/source"
)

// scheduleFlag is a rate that changes over time.
type scheduleFlag struct{ *offer.Schedule }

// Set parses a schedule.
func (f scheduleFlag) Set(text string) error {
	return withoutValue("not a schedule", f.UnmarshalText([]byte(text)))
}

// Type returns the value's name in help texts.
func (f scheduleFlag) Type() string { return "SCHEDULE" }

// sourceFlag is a list of source addresses.
type sourceFlag struct{ *source.Addresses }

// Set parses the addresses.
func (f sourceFlag) Set(text string) error {
	return withoutValue("not source addresses", f.UnmarshalText([]byte(text)))
}

// Type returns the value's name in help texts.
func (f sourceFlag) Type() string { return "ADDRESSES" }

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
