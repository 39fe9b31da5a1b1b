package torture

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// attempt is an input that is sent on a connection of its own, and what a server did with it.
type attempt struct {
	name, section string // with the number of its RFC
	parts         [][]byte
	enough        func([]byte) bool // has come; nil: it is waited for more
	judge         func(heard) (ruling, string)

	ruling
	words string
}

const (
	inputsAtOnce = 8 // some servers let few connections wait
	retryFactor  = 3 // how much longer the second try of an input waits
)

// mark returns a name that nobody else uses.
func (a *Arena) mark() string { return fmt.Sprintf("hone-%016x", a.Rand.Uint64()) }

// play makes all attempts, several at once, and those that look wrong a second time, more patiently.
func (a *Arena) play(ctx context.Context, open opener, all []attempt) error {
	try := func(one *attempt, patience time.Duration) error {
		c, err := a.Open(ctx, open)
		if err != nil {
			return err
		}
		one.ruling, one.words = one.judge(c.hear(ctx, patience*a.Answer, one.parts, one.enough))
		return ctx.Err()
	}
	var turn atomic.Int64
	err := cmp.Or(atOnce(inputsAtOnce, func(int) (err error) {
		for i := int(turn.Add(1)) - 1; i < len(all) && err == nil; i = int(turn.Add(1)) - 1 {
			err = try(&all[i], 1)
		}
		return err
	})...)
	for i := range all {
		if err == nil && all[i].ruling == wrong {
			err = try(&all[i], retryFactor)
		}
	}
	return err
}

// rule makes all attempts, and sums up what the server did.
func (a *Arena) rule(ctx context.Context, open opener, all []attempt) Finding {
	if err := a.play(ctx, open, all); err != nil {
		return unknown("not all of %d inputs were sent: %v", len(all), err)
	}
	count := [3]int{}
	slices.SortStableFunc(all, func(a, b attempt) int { return int(b.ruling) - int(a.ruling) })
	for _, one := range all {
		if count[one.ruling]++; one.ruling != right {
			a.inputs = append(a.inputs, fmt.Sprintf("%v: %s (RFC %s): %s", one.ruling, one.name, one.section, one.words))
		}
	}
	words := fmt.Sprintf("%d of %d right, %d lenient, %d wrong", count[right], len(all), count[lenient], count[wrong])
	if count[wrong] > 0 {
		return falls("%s: %s", words, strings.TrimPrefix(a.inputs[0], "wrong: "))
	}
	return survives("%s", words)
}

// requests returns the attempts to send inputs.
func (a *Arena) requests(inputs []httpInput, enough func([]byte) bool, judge func(in *httpInput, got heard, mark string) (ruling, string)) []attempt {
	all := make([]attempt, len(inputs))
	for i := range inputs {
		in, mark := &inputs[i], "/"+a.mark()
		all[i] = attempt{
			name: in.name, section: in.section, parts: in.render(a.target.host, a.target.path, mark), enough: enough,
			judge: func(got heard) (ruling, string) { return judge(in, got, mark) },
		}
	}
	return all
}

// malformed returns the attempts to send malformed requests, where the good request that stands behind
// each gets the status that it gets now.
func (a *Arena) malformed(ctx context.Context, inputs []httpInput) ([]attempt, error) {
	c, err := a.Open(ctx, (*target).Bare)
	if err != nil {
		return nil, err
	}
	next := httpInput{text: "{next}"}
	good, err := httpAnswers(c.hear(ctx, a.Answer, next.render(a.target.host, a.target.path, ""), nil).bytes)
	if err == nil && len(good) != 1 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("the good request: %w", err)
	}
	return a.requests(inputs, nil, func(in *httpInput, got heard, mark string) (ruling, string) {
		return in.judge(got, mark, good[0].status)
	}), nil
}

// sendMalformed returns an attack that sends inputs.
func sendMalformed(inputs ...[]httpInput) attackFunc {
	return func(ctx context.Context, a *Arena) Finding {
		all, err := a.malformed(ctx, slices.Concat(inputs...))
		if err != nil {
			return unknown("%v", err)
		}
		return a.rule(ctx, (*target).Bare, all)
	}
}
