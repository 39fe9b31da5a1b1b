// Package session runs a command that measures: it opens everything that the result needs
// before minutes are spent, and at the end prints the result, stores the runs and returns
// the exit code, in that order. So a failing store never costs a result.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/view"
)

// Plan describes what a command needs.
type Plan struct {
	Command        string // with which errors begin
	Stdout, Stderr io.Writer
	Output         Output
	// Keep opens the store in which End stores its runs.
	Keep  bool
	Store Store
	// UI sets where Page is served, if at all.
	UI   UI
	Page *page.Page
	// Progress and Plain are as in view.How.
	Progress, Plain bool
}

// Session is a running command.
type Session struct {
	// Store is nil if nothing is to be stored.
	Store *record.Store
	// Live is nil, and does nothing, if no page was asked for.
	Live *Live

	plan Plan
	out  *File
	view *view.View // nil: nothing is shown
}

// Open opens everything in plan, or nothing.
func Open(ctx context.Context, plan Plan) (s *Session, err error) {
	s = &Session{plan: plan}
	defer func() {
		if err != nil {
			s.release()
			s = nil
		}
	}()
	if s.out, err = plan.Output.Open(plan.Stdout); err != nil {
		return s, err
	}
	if plan.Keep {
		if s.Store, err = plan.Store.Write(plan.Command); err != nil {
			return s, err
		}
	}
	if plan.Page != nil {
		s.Live, err = plan.UI.open(plan.Command, plan.Stderr, plan.Page)
	}
	return s, err
}

// Watch shows the progress of loads with this plan, as far as it is known, until the result.
func (s *Session) Watch(plan load.Plan) *view.View {
	s.view = view.Open(view.How{To: s.plan.Stderr, Lines: s.plan.Progress, Plain: s.plan.Plain}, plan)
	return s.view
}

// Close closes everything; a page that stays is closed when ctx ends.
func (s *Session) Close(ctx context.Context) {
	s.unwatch()
	s.Live.Close(ctx)
	s.release()
}

func (s *Session) release() {
	if s.out != nil {
		s.out.Close() // a failed write has been reported
	}
}

// Result is the destination of the result.
func (s *Session) Result() io.Writer { return s.out.Writer }

// Said reports whether the result is text on standard output, whose first line tells the
// user how it went.
func (s *Session) Said() bool { return s.plan.Output.Said() }

// End describes how the work ended.
type End struct {
	// JSON and Text are the result. Without Text there is none.
	JSON any
	Text func(io.Writer) error
	// Runs are to be stored, together.
	Runs []*record.Run
	// Kept reports that the runs were stored. Nil: nothing is reported.
	Kept func() error
	// Err is why the work could not go on. Nil: it completed.
	Err error
	// Partly marks the runs as measured until an interruption.
	Partly bool
	// Verdict is the command's outcome if nothing else went wrong. Nil: success.
	Verdict error
}

// unwatch ends what Watch has begun.
func (s *Session) unwatch() {
	if s.view != nil {
		s.view.End()
	}
}

// Finish prints the result, stores the runs, and returns the command's outcome.
func (s *Session) Finish(e End) error {
	s.unwatch()
	printed := s.print(e)
	kept := s.keep(e)
	if printed == nil && kept == nil && len(e.Runs) > 0 && s.Store != nil && e.Kept != nil {
		printed = e.Kept()
	}
	if printed != nil {
		printed = exit.Failedf("%s: %w", s.plan.Command, printed)
	}
	all := []error{printed, kept, e.Err, e.Verdict}
	if e.Err != nil { // the cause of the failure matters more than its consequences
		all = []error{e.Err, printed, kept}
	}
	return s.first(all)
}

// first returns the first error, and prints the others unless they have been printed.
func (s *Session) first(all []error) (first error) {
	for _, err := range all {
		end := new(exit.Error)
		switch {
		case err == nil, first != nil && errors.As(err, &end) && end.Err == nil:
		case first == nil:
			first = err
		default:
			fmt.Fprintf(s.plan.Stderr, "hone: %v\n", err)
		}
	}
	return first
}

func (s *Session) print(e End) error {
	if e.Text == nil {
		return nil
	}
	if err := s.out.begin(); err != nil {
		return err
	}
	if s.plan.Output.JSON {
		return WriteJSON(s.out, e.JSON)
	}
	return e.Text(s.out)
}

// keep stores the runs even after the context has ended.
func (s *Session) keep(e End) error {
	if s.Store == nil || len(e.Runs) == 0 {
		return nil
	}
	if err := s.Store.AddTogether(e.Runs...); err != nil {
		return exit.Failedf("%s: the result was not stored: %w", s.plan.Command, err) // the cause ends with advice
	}
	if e.Partly {
		fmt.Fprintf(s.plan.Stderr, "hone: %s: stored the measurements so far as %s\n", s.plan.Command, e.Runs[0].ID)
	}
	return nil
}

// Failure is the outcome of a command whose work could not go on.
func Failure(command string, err error) error {
	if errors.Is(err, context.Canceled) {
		return &exit.Error{Code: exit.Interrupted, Err: fmt.Errorf("%s: interrupted", command)}
	}
	return exit.Failedf("%s: %w", command, err)
}
