// Package exit defines exit codes, and errors whose line ends with what to try next.
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
	Invalid     = 4 // the run is not valid
	Interrupted = 130
)

// Error ends a command with a nonzero exit code.
type Error struct {
	Code int
	Err  error // nil when everything has been printed
}

// Error returns what is left to print.
func (f *Error) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit code %d", f.Code)
	}
	return f.Err.Error()
}

// Unwrap returns the cause.
func (f *Error) Unwrap() error { return f.Err }

// Usagef reports an invalid command line.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// Failedf reports a command that could not do its work.
func Failedf(format string, args ...any) error {
	return &Error{Code: Failed, Err: fmt.Errorf(format, args...)}
}

// Verdict ends a command with a code, and with the reason unless the result has said it.
func Verdict(code int, said bool, format string, args ...any) error {
	if said {
		return &Error{Code: code}
	}
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// FailedIf wraps err, if not nil, with the exit code of failures.
func FailedIf(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: Failed, Err: err}
}
