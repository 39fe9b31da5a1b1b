// Package exit says how a command ends: its exit code, and the line that says what to try next.
package exit

import (
	"fmt"
)

// The exit codes.
const (
	OK          = 0
	Failed      = 1 // failed, or unreachable
	Usage       = 2
	Missed      = 3 // a goal was missed
	Invalid     = 4 // the run says nothing
	Interrupted = 130
)

// Error is the end of a command that is not exit code 0.
type Error struct {
	Code int
	Err  error // nil when everything has been said
}

// Error returns what is still to be said.
func (f *Error) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit code %d", f.Code)
	}
	return f.Err.Error()
}

// Unwrap returns the cause.
func (f *Error) Unwrap() error { return f.Err }

// Usagef is the failure of a command line that cannot be.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// Failedf is the failure of a command that could not do its work.
func Failedf(format string, args ...any) error {
	return &Error{Code: Failed, Err: fmt.Errorf(format, args...)}
}

// FailedIf is err, when there is one, with the exit code of failures.
func FailedIf(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: Failed, Err: err}
}
