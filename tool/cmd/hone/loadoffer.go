package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
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
	bytes sizeFlag
	sizes offer.Sizes
}

// Set takes a size, or sizes.
func (f *contentSizeFlag) Set(text string) error {
	if strings.Contains(text, ":") {
		return withoutValue("no sizes", f.sizes.UnmarshalText([]byte(text)))
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

// completeOffer finishes what the flags say of when and what is offered.
func (f *loadFlags) completeOffer(cmd *cobra.Command) error {
	if f.plan.Schedule.None() {
		return nil
	}
	if f.plan.Rate > 0 {
		return exit.Usagef("%s: --rate and --schedule cannot both be; give one of them", cmd.Name())
	}
	if cmd.Name() == "knee" {
		return exit.Usagef("knee: --schedule changes what is looked for; leave it out, or use hone load")
	}
	if length := f.plan.Schedule.Length(); length > 0 && !cmd.Flags().Changed("for") {
		f.plan.For = length
	}
	return nil
}
