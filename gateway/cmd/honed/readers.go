package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/number"
)

// Paths of the admin side, which only lists, and of the control socket.
const (
	readersPath  = "/gateway/readers"
	sessionsPath = "/gateway/sessions"
)

// mostSessions is how many sessions one answer lists.
const mostSessions = 1000

// lists are the pages of the admin side that list readers and sessions.
func lists(srv *gateway.Server) map[string]http.Handler {
	return map[string]http.Handler{
		readersPath: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { commandline.AnswerJSON(w, srv.ReaderStates()) }),
		sessionsPath: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			commandline.AnswerJSON(w, srv.SessionStates(q.Get("prefix"), q.Get("after"), mostSessions))
		}),
	}
}

// control answers the verbs of a running honed.
func control(srv *gateway.Server) http.Handler {
	mux := http.NewServeMux()
	for path, list := range lists(srv) {
		mux.Handle("GET "+path, list)
	}
	mux.Handle("POST "+readersPath, commandline.Carry(srv.OrderReader))
	mux.Handle("POST "+sessionsPath, commandline.Carry(srv.ForgetSession))
	mux.HandleFunc("GET "+clockPath, func(w http.ResponseWriter, _ *http.Request) { commandline.AnswerJSON(w, clockNow(srv)) })
	mux.Handle("POST "+clockPath, commandline.Carry(func(ctx context.Context, _ struct{}) error { return srv.AcceptClock(ctx) }))
	return mux
}

func writeReaderMetrics(w io.Writer, all []gateway.ReaderState) {
	for _, m := range []struct {
		name, help string
		value      func(gateway.ReaderState) any // nil: it has none
	}{
		{"honed_reader_connected", "1 while the reader is connected.", func(r gateway.ReaderState) any { return map[bool]int{true: 1}[r.Connected] }},
		{"honed_reader_lag_records", "Records that the reader has not acknowledged, roughly.", func(r gateway.ReaderState) any { return r.LagRecords }},
		{"honed_reader_lag_bytes", "Bytes of the log behind what the reader has acknowledged, roughly.", func(r gateway.ReaderState) any { return r.LagBytes }},
		{"honed_reader_lag_seconds", "Age of the oldest record that the reader has not acknowledged, in log time.", func(r gateway.ReaderState) any { return r.LagAge.Seconds() }},
		{"honed_reader_in_flight_bytes", "Bytes sent to the reader that its program has not taken.", func(r gateway.ReaderState) any { return r.InFlight }},
		{"honed_reader_expires_seconds", "Running time until the log is no longer kept for a reader that is not connected.", func(r gateway.ReaderState) any {
			if r.Connected || r.Expire == 0 {
				return nil
			}
			return max(r.Expire-r.Away, 0).Seconds()
		}},
	} {
		commandline.Metrics{To: w}.Head(m.name, "gauge", m.help)
		for _, r := range all {
			if value := m.value(r); value != nil {
				fmt.Fprintf(w, "%s{reader=%q,share=\"%d\"} %v\n", m.name, r.Name, r.Share, value)
			}
		}
	}
}

// action splits the arguments of a verb with actions: the action and, unless that is list, a name.
func action(verb string, args []string, actions ...string) (do, name string, rest []string, err error) {
	wrong := commandline.UsageError{Err: fmt.Errorf("honed %s %s; all but list need a NAME next", verb, strings.Join(actions, "|"))}
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return "list", "", args, nil
	}
	for _, known := range actions {
		switch {
		case len(args) == 0 || args[0] != known:
		case known == "list":
			return known, "", args[1:], nil
		case len(args) > 1 && args[1] != "" && args[1][0] != '-':
			return known, args[1], args[2:], nil
		case len(args) > 1 && isHelp(args[1]):
			return known, "", args[1:], nil
		}
	}
	return "", "", nil, wrong
}

func readers(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	do, name, args, err := action("readers", args, "list", "create", "move", "split", "remove")
	if err != nil {
		return err
	}
	flags, config := commandline.New("honed readers " + do)
	honed := addControl(flags)
	o := gateway.ReaderOrder{Do: do, Name: name}
	from := ""
	asJSON := listsAsJSON(flags, do)
	if do == "create" || do == "move" {
		flags.StringVar(&from, "from", "first", "`WHERE` it begins: first, next, a time such as 2026-11-22T21:00:00Z, or a number that honed tail prints")
	}
	if do == "create" || do == "split" {
		flags.IntVar(&o.Shares, "shares", 1, "into how many shares the clients are divided")
	}
	if do == "create" {
		flags.DurationVar(&o.Expire, "expire", 0, "after this time without a connection it no longer holds the log; 0: --reader-expiry of the server")
	}
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if do != "list" {
		if from != "" { // else what is stored
			if o.Start, o.At, err = commandline.ParseStart(from); err != nil {
				return commandline.UsageError{Err: fmt.Errorf("--from: %w", err)}
			}
		}
		return honed.Ask(ctx, http.MethodPost, readersPath, o, nil)
	}
	var all []gateway.ReaderState
	if err := honed.Ask(ctx, http.MethodGet, readersPath, nil, &all); err != nil {
		return err
	}
	if len(all) == 0 && !*asJSON {
		fmt.Fprintln(stderr, "no readers")
		return nil
	}
	return commandline.PrintList(stdout, *asJSON, all, "NAME\tSHARE\tOF\tPOSITION\tSEEN\tRECORDS BEHIND\tBYTES BEHIND\tAGE\tHOLDS THE LOG", func(r gateway.ReaderState) string {
		return fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%d\t%d\t%v\t%t", r.Name, r.Share, r.Shares, number.Format(r.Position.Number),
			seen(r.Connected, r.Away), r.LagRecords, r.LagBytes, r.LagAge.Round(time.Second), r.Holds)
	})
}

// listsAsJSON defines --json of an action that lists.
func listsAsJSON(flags *flag.FlagSet, do string) *bool {
	if do != "list" {
		return new(bool)
	}
	return flags.Bool("json", false, "print a line of JSON for each")
}

func seen(connected bool, away time.Duration) string {
	if connected {
		return "now"
	}
	return fmt.Sprintf("%v ago", away.Round(time.Second))
}

func sessions(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	do, name, args, err := action("sessions", args, "list", "forget")
	if err != nil {
		return err
	}
	var prefix string
	flags, config := commandline.New("honed sessions " + do)
	honed := addControl(flags)
	asJSON := listsAsJSON(flags, do)
	if do == "list" {
		flags.StringVar(&prefix, "prefix", "", "only clients whose names begin with this `TEXT`")
	}
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if do == "forget" {
		return honed.Ask(ctx, http.MethodPost, sessionsPath, name, nil)
	}
	const head = "CLIENT\tEPOCH\tLAST\tSEEN"
	for after := ""; ; {
		var all []gateway.SessionState
		query := url.Values{"prefix": {prefix}, "after": {after}}.Encode()
		if err := honed.Ask(ctx, http.MethodGet, sessionsPath+"?"+query, nil, &all); err != nil {
			return err
		}
		if len(all) == 0 {
			if after == "" && !*asJSON {
				fmt.Fprintln(stderr, "no sessions")
			}
			return nil
		}
		if err := commandline.PrintList(stdout, *asJSON, all, head, func(s gateway.SessionState) string {
			return fmt.Sprintf("%s\t%d\t%d\t%s", s.Client, s.Epoch, s.Last, seen(s.Connected, s.Away))
		}); err != nil {
			return err
		}
		after = all[len(all)-1].Client
	}
}
