// Package race measures this system's default engine and the plain servers of package demo under the
// same loads, each in a separate process: alone, and next to slow handlers.
package race

import (
	"context"
	"fmt"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/demo"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

const (
	mostRetries = 4 // of the laps of both races
	idleConns   = 1000
)

// Plan configures a race.
type Plan struct {
	// Serve is the command that starts a server, such as hone serve; flags are appended.
	Serve []string
	// Step is the command that calls demo.Run, such as hone demo --step; the name is appended.
	Step []string
	// Lap is how long each load is measured.
	Lap time.Duration
	// Say receives the current leg, the number of legs, and what is being measured. Legs
	// count from 1.
	Say func(leg, legs int, engine, what string)
	// Watch receives every load's progress once a second. Nil: none.
	Watch func(what, engine string, now load.Progress)
	// Lapped receives what counts of a load when it has ended. Nil: none.
	Lapped func(what, engine string, lap Lap)
	// Serving receives the admin side of the current server, and nil when it ends. Nil:
	// none.
	Serving func(*admin.Server)
}

// Run races the servers, each in a separate process, one after the other: first alone, then next to
// slow handlers.
func Run(ctx context.Context, plan Plan) (*Report, error) {
	race := &Report{Schema: figure.SchemaDemo, InvalidReasons: []string{}}
	legs, retries := race.legs(), mostRetries
	for i, l := range legs {
		c := &contest{
			engine: l.engine, plan: plan, retries: &retries,
			say: func(what string) { plan.Say(i+1, len(legs), l.engine, what) },
		}
		if err := l.run(ctx, c); err != nil {
			return nil, fmt.Errorf("%s: %w", l.engine, err)
		}
		race.InvalidReasons = append(race.InvalidReasons, c.doubts...)
	}
	race.Valid = len(race.InvalidReasons) == 0
	race.compare()
	return race, nil
}

// onNet begins the names of the plain servers, which use package net.
const onNet = "net-"

// withBuffers is the plain server that the second race compares with.
const withBuffers = onNet + "buffered"

// leg is one engine's part in one of the races.
type leg struct {
	engine string
	run    func(context.Context, *contest) error
}

// legs returns the legs of both races. Events without hand-off takes part to show what
// hand-off gains.
func (r *Report) legs() []leg {
	alone := func(ctx context.Context, c *contest) error {
		entry, err := c.alone(ctx)
		if err == nil {
			r.Engines = append(r.Engines, entry)
		}
		return err
	}
	beside := func(ctx context.Context, c *contest) error {
		entry, err := c.besideSlow(ctx)
		if err == nil {
			r.Beside = append(r.Beside, entry)
		}
		return err
	}
	var all []leg
	for _, name := range demo.Names() {
		all = append(all, leg{onNet + name, alone})
	}
	usual := engine.Engine{}.Name()
	all = append(all, leg{usual, alone}, leg{withBuffers, beside}, leg{usual, beside})
	if usual == engine.Events(engine.Auto).Name() {
		all = append(all, leg{engine.Events(engine.Inline).Name(), beside})
	}
	return all
}
