// Package session is one call of a command that measures: it opens what the result needs
// before minutes are spent, and at the end prints the result, keeps the runs and says how
// the command ends, in that order. So a store that fails never costs a result.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
)

// keepTime is how long storing may take. It goes on when the command is interrupted.
const keepTime = 30 * time.Second

// Plan says what a command needs.
type Plan struct {
	Command        string // as errors begin
	Stdout, Stderr io.Writer
	Output         Output
	// Keep opens the store for what End keeps.
	Keep  bool
	Store Store
	// UI says where Page is served, if anywhere.
	UI   UI
	Page *page.Page
}

// Session is a command on its way.
type Session struct {
	// Store is nil if nothing is kept.
	Store *record.Store
	// Live is nil, which does nothing, if no page was asked for.
	Live *Live

	plan Plan
	out  *File
}

// Open opens all that plan says, or nothing.
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
		if s.Store, err = plan.Store.Write(ctx, plan.Command); err != nil {
			return s, err
		}
	}
	if plan.Page != nil {
		s.Live, err = plan.UI.open(plan.Command, plan.Stderr, plan.Page)
	}
	return s, err
}

// Close lets everything go: the page when ctx ends, if it stays until then.
func (s *Session) Close(ctx context.Context) {
	s.Live.Close(ctx)
	s.release()
}

func (s *Session) release() {
	if s.Store != nil {
		s.Store.Close() // what was added is on disk already
	}
	if s.out != nil {
		s.out.Close() // after a write that failed has been reported
	}
}

// Result is where the result goes.
func (s *Session) Result() io.Writer { return s.out.Writer }

// Said reports whether people read the result, whose first line says how it went.
func (s *Session) Said() bool { return s.plan.Output.Said() }

// End is how the work ended.
type End struct {
	// JSON and Text are the result. Without Text there is none.
	JSON any
	Text func(io.Writer) error
	// Runs are to be kept: each by itself, or both as a pair.
	Runs []*record.Run
	Pair bool
	// Kept says so once the runs are kept. Nil: nothing is said.
	Kept func() error
	// Err says why the work could not go on. Nil: it came to its end.
	Err error
	// Partly says that the runs are what was measured until the work was interrupted.
	Partly bool
	// Verdict is how the command ends when nothing else went wrong. Nil: well.
	Verdict error
}

// Finish prints, keeps, and returns how the command ends.
func (s *Session) Finish(e End) error {
	printed := s.print(e)
	kept := s.keep(e)
	if printed == nil && kept == nil && len(e.Runs) > 0 && s.Store != nil && e.Kept != nil {
		printed = e.Kept()
	}
	if printed != nil {
		printed = exit.Failedf("%s: %w", s.plan.Command, printed)
	}
	all := []error{printed, kept, e.Err, e.Verdict}
	if e.Err != nil { // why it broke off counts for more than what that has led to
		all = []error{e.Err, printed, kept}
	}
	return s.first(all)
}

// first is the first error; of the others those are said that nothing has said yet.
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

// keep stores the runs, also when the context has ended.
func (s *Session) keep(e End) error {
	if s.Store == nil || len(e.Runs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	if err := s.add(ctx, e); err != nil {
		return exit.Failedf("%s: the result is not kept: %w", s.plan.Command, err) // it ends with the next thing to try
	}
	if e.Partly {
		fmt.Fprintf(s.plan.Stderr, "hone: %s: what was measured until now is kept as %s\n", s.plan.Command, e.Runs[0].ID)
	}
	return nil
}

func (s *Session) add(ctx context.Context, e End) error {
	if e.Pair && len(e.Runs) == 2 {
		return s.Store.AddPair(ctx, e.Runs[0], e.Runs[1])
	}
	for _, run := range e.Runs {
		if err := s.Store.Add(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// Failure is how a command ends whose work could not go on.
func Failure(command string, err error) error {
	if errors.Is(err, context.Canceled) {
		return &exit.Error{Code: exit.Interrupted, Err: fmt.Errorf("%s: interrupted", command)}
	}
	return exit.Failedf("%s: %w", command, err)
}
