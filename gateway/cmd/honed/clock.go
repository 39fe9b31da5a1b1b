package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
)

const clockPath = "/clock"

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

func clockNow(srv *gateway.Server) clockLine {
	now := srv.Stats()
	return clockLine{LogTime: now.LogTime, WallClock: now.LogTime.Add(now.ClockAhead), Ahead: now.ClockAhead.Seconds(), Steps: now.ClockSteps, Off: now.ClockOff}
}

// clock prints the clock of the honed that runs on a data folder, or makes log time follow the
// wall clock, and fails if that changes nothing.
func clock(ctx context.Context, args []string, stdout, _ io.Writer) error {
	accept := len(args) > 0 && args[0] == "accept"
	if accept {
		args = args[1:]
	}
	flags, config := commandline.New("honed clock")
	honed := addControl(flags)
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	var line clockLine
	var refused error
	if accept {
		refused = honed.Ask(ctx, http.MethodPost, clockPath, struct{}{}, nil)
	}
	if err := honed.Ask(ctx, http.MethodGet, clockPath, nil, &line); err != nil {
		return err
	}
	if line.Accepted = accept && refused == nil; refused != nil {
		line.Refused = refused.Error()
	}
	return cmp.Or(json.NewEncoder(stdout).Encode(line), refused)
}
