package spec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hone-go/hone/tool/load/offer"
	"github.com/hone-go/hone/tool/load/source"
)

// scheduleFlag takes a rate that changes.
type scheduleFlag struct{ *offer.Schedule }

// Set takes a schedule.
func (f scheduleFlag) Set(text string) error {
	return withoutValue("no schedule", f.UnmarshalText([]byte(text)))
}

// Type is how help names the value.
func (f scheduleFlag) Type() string { return "SCHEDULE" }

// sourceFlag takes addresses to connect from.
type sourceFlag struct{ *source.Addresses }

// Set takes the addresses.
func (f sourceFlag) Set(text string) error {
	return withoutValue("no source addresses", f.UnmarshalText([]byte(text)))
}

// Type is how help names the value.
func (f sourceFlag) Type() string { return "ADDRESSES" }

// withoutValue leaves out of an error the value, which the flag's own says.
func withoutValue(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s; %w", what, errors.Unwrap(err))
}

// contentSizeFlag takes a number of bytes, or how they are spread.
type contentSizeFlag struct {
	bytes Size
	sizes offer.Sizes
	files *files
}

// Set takes a size, or sizes.
func (f *contentSizeFlag) Set(text string) error {
	if strings.Contains(text, ":") {
		return withoutValue("no sizes", f.sizes.Read(text, f.files.read))
	}
	f.sizes = offer.Sizes{}
	return f.bytes.Set(text)
}

// String returns the size or sizes.
func (f *contentSizeFlag) String() string {
	if !f.sizes.None() {
		return f.sizes.String()
	}
	return f.bytes.String()
}

// Type is how help names the value.
func (f *contentSizeFlag) Type() string { return "SIZE" }
