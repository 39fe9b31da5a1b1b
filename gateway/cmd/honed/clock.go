package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
)

// honed clock asks the running honed through two files in the data folder: whoever may write
// there may accept a clock step, and it works without an admin side.
const (
	clockRequest = "clock-request" // what the verb asks for: show or accept
	clockAnswer  = "clock-answer"  // a clockLine
	clockPoll    = 200 * time.Millisecond
	clockWait    = 10 * time.Second
)

// clockLine is the line that honed clock prints.
type clockLine struct {
	LogTime   time.Time `json:"log_time"`
	WallClock time.Time `json:"wall_clock"`
	Ahead     float64   `json:"ahead_seconds"` // the wall clock
	Steps     uint64    `json:"steps"`         // that log time did not follow
	Off       bool      `json:"off"`           // log time does not follow the wall clock now
	Accepted  bool      `json:"accepted"`      // a step, by this command
	Refused   string    `json:"refused,omitempty"`
}

// answerClock answers the requests of honed clock until ctx ends.
func answerClock(ctx context.Context, srv *gateway.Server, folder string, logger *slog.Logger) {
	ticker := time.NewTicker(clockPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			request, err := os.ReadFile(filepath.Join(folder, clockRequest))
			if err == nil && len(request) > 0 {
				err = writeClock(ctx, srv, folder, string(request) == "accept")
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				logger.Error("cannot answer honed clock", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func writeClock(ctx context.Context, srv *gateway.Server, folder string, accept bool) error {
	if err := os.Remove(filepath.Join(folder, clockRequest)); err != nil {
		return err
	}
	refused := ""
	if accept {
		ctx, cancel := context.WithTimeout(ctx, clockWait/2)
		defer cancel()
		if err := srv.AcceptClock(ctx); err != nil {
			accept, refused = false, err.Error()
		}
	}
	now := srv.Stats()
	line, err := json.Marshal(clockLine{now.LogTime, now.LogTime.Add(now.ClockAhead), now.ClockAhead.Seconds(), now.ClockSteps, now.ClockOff, accept, refused})
	if err != nil {
		return err
	}
	path := filepath.Join(folder, clockAnswer)
	if err := os.WriteFile(path+".new", line, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// clock prints the clock of the honed that runs on a data folder, or makes log time follow the
// wall clock, and fails if that changes nothing.
func clock(ctx context.Context, args []string, stdout, _ io.Writer) error {
	ask := "show"
	if len(args) > 0 && args[0] == "accept" {
		ask, args = args[0], args[1:]
	}
	flags, config := commandline.New("honed clock")
	folder := flags.String("data", "honed-data", "`FOLDER` of the running honed")
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	request, answer := filepath.Join(*folder, clockRequest), filepath.Join(*folder, clockAnswer)
	os.Remove(answer)
	if err := os.WriteFile(request, []byte(ask), 0o644); err != nil {
		return err
	}
	for deadline := time.Now().Add(clockWait); ; {
		text, err := os.ReadFile(answer)
		if err == nil {
			os.Remove(answer)
			var line clockLine
			_, err = fmt.Fprintf(stdout, "%s\n", text)
			if err = cmp.Or(err, json.Unmarshal(text, &line)); err == nil && line.Refused != "" {
				err = errors.New(line.Refused)
			}
			return err
		}
		if time.Now().After(deadline) {
			os.Remove(request)
			return fmt.Errorf("no honed that runs on %s has answered for %v; give its folder with --data", *folder, clockWait)
		}
		select {
		case <-ctx.Done():
			os.Remove(request)
			return commandline.ErrInterrupted
		case <-time.After(clockPoll):
		}
	}
}
