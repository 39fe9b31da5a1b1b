// Package torture attacks a server in many ways and says what becomes of it.
//
// A scenario is one attack. While it runs, bystanders ask the server what they asked before it
// began: a server survives when they get their answers. Nothing is changed in the server, and every
// loop, connection and byte is bounded.
package torture

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Kinds is a set of kinds of target.
type Kinds uint8

// The kinds of target.
const (
	Messages  Kinds = 1 << iota // hone's frames, or any framing that package load knows
	HTTP                        // HTTP/1.1
	WebSocket                   // RFC 6455
	AllKinds  = Messages | HTTP | WebSocket
)

// Access is what a scenario needs to reach of its target.
type Access uint8

// The accesses, each of which includes those before it.
const (
	Outside Access = iota // an address
	Watched               // a process whose memory, CPU and descriptors can be read (--pid)
	Owned                 // a process that may be started, signalled and limited (--cmd)
)

// String returns the access in words.
func (a Access) String() string {
	return [...]string{"from outside", "watched (--pid or --cmd)", "owned (--cmd)"}[a]
}

// Scenario is one attack.
type Scenario struct {
	// Name is how --only calls it: lower-case words with dashes.
	Name string
	// Title is one sentence that says what it does.
	Title string
	// Kinds are the targets to which it applies.
	Kinds Kinds
	// TLS limits it to targets that speak TLS.
	TLS bool
	// HTTP2 limits it to targets that answer the good request over HTTP/2, too.
	HTTP2 bool
	// Access is what it needs.
	Access Access
	// Waits says that it waits for the server's own time-outs, up to Arena.Wait. Such scenarios run
	// at the same time, so that all of them wait once, unless they need Arena.Server. They keep to
	// Limits.Few connections.
	Waits bool
	// Alone says that bystanders pause: the server ends in it, or refuses newcomers as it should.
	Alone bool
	// Whole says that it needs answers that end: those of event streams do not.
	Whole bool
	// Rests is how long a sound server may serve nobody after it: net/http rests for up to a second
	// when it had no descriptors.
	Rests time.Duration
	// Attack does it, and says what it saw itself. What the bystanders felt and what the process
	// used is added to that. It returns when ctx ends, closes nothing (the arena does) and starts
	// no goroutine that survives it. It panics never.
	Attack attackFunc
}

type attackFunc func(ctx context.Context, a *Arena) Finding

// Scenarios returns all scenarios, in the order in which they run.
func Scenarios() []Scenario {
	return slices.Concat(messageScenarios, crowdScenarios, httpScenarios, http2Scenarios, socketScenarios, tlsScenarios, stormScenarios, ownedScenarios)
}

// Verdict is what became of a server.
type Verdict uint8

// The verdicts, from good to bad. NotFoundOut is never a pass.
const (
	NotApplicable Verdict = iota
	Survived
	Slower
	NotFoundOut
	Fell
)

// String returns the verdict in words.
func (v Verdict) String() string {
	return [...]string{"not applicable", "survived", "slower", "not found out", "fell"}[v]
}

// MarshalText returns the verdict in words.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText returns.
func (v *Verdict) UnmarshalText(text []byte) error {
	for known := NotApplicable; known <= Fell; known++ {
		if known.String() == string(text) {
			*v = known
			return nil
		}
	}
	return fmt.Errorf("torture: there is no verdict %q", text)
}

// Finding is what an attack saw.
type Finding struct {
	Verdict Verdict
	// Words say in half a sentence what the server did, with figures: "closed 40 of 40 silent
	// connections after 5.0 to 5.1 s".
	Words string
}

// or returns f, or other if f has found nothing.
func (f Finding) or(other Finding) Finding {
	if f == (Finding{}) {
		return other
	}
	return f
}

// survives is the finding of a server that did what it should.
func survives(format string, args ...any) Finding {
	return Finding{Survived, fmt.Sprintf(format, args...)}
}

// falls is the finding of a server that lost or falsified something by itself. It is tried a second
// time before it counts.
func falls(format string, args ...any) Finding { return Finding{Fell, fmt.Sprintf(format, args...)} }

// unknown is the finding of an attack that could not find out what it wanted to.
func unknown(format string, args ...any) Finding {
	return Finding{NotFoundOut, fmt.Sprintf(format, args...)}
}

// doesNotApply is the finding of an attack that this server cannot be asked for.
func doesNotApply(format string, args ...any) Finding {
	return Finding{NotApplicable, fmt.Sprintf(format, args...)}
}
