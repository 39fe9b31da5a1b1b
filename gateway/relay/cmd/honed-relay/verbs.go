package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/number"
	"github.com/hone-go/hone/gateway/journal"
)

// deadPath is the path of the control socket for verbs that decide something: whoever may write to the folder may decide,
// and it works without an admin side. If no relay runs there, they do it themselves, under the log's lock.
const deadPath = "/dead"

// decision is what an operator wants.
type decision struct {
	State   string   `json:"state"` // retried or dropped
	Numbers []uint64 `json:"numbers,omitempty"`
	Client  string   `json:"client,omitempty"`
	All     bool     `json:"all,omitempty"`
	Waiting bool     `json:"waiting,omitempty"` // also those that wait, or are being retried
}

// names returns a function that says whether a decision names a letter.
func (d *decision) names() func(*letter) bool {
	numbers := map[uint64]bool{}
	for _, n := range d.Numbers {
		numbers[n] = true
	}
	return func(l *letter) bool { return d.All || numbers[l.number] || d.Client != "" && d.Client == l.client }
}

// outcome is what became of a decision.
type outcome struct {
	Changed int `json:"changed"`
}

const deadHelp = `honed-relay dead decides what becomes of the messages that the destination refused.

Usage:
  honed-relay dead list [NUMBER…] [--client C] [--all]  what was refused and why; --all: and what waits; --json: with the data
  honed-relay dead retry NUMBER… | --client C | --all   deliver refused ones again, and then what waits behind them
  honed-relay dead drop NUMBER… | --client C | --all    give refused ones up; what waits behind them is delivered
  honed-relay dead drop … --waiting --yes               give up what waits, too

They take --data, the folder of the relay, which may run or not. honed-relay dead VERB --help lists a verb's flags.
`

func dead(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "help", "--help", "-h", "-help":
		_, err := fmt.Fprint(stdout, deadHelp)
		return err
	}
	flags, config := commandline.New("honed-relay dead " + verb)
	folder := flags.String("data", "honed-relay-data", "`FOLDER` of the dead-letter log")
	asJSON := flags.Bool("json", false, "print JSON, one line for each message")
	all, client, unseen, yes := new(bool), new(string), new(bool), new(bool)
	flags.BoolVar(all, "all", false, map[string]string{
		"list": "list also those that wait behind a refused one", "retry": "deliver all refused ones again", "drop": "give all refused ones up",
	}[verb])
	flags.StringVar(client, "client", "", "only those of this `CLIENT`")
	if verb == "drop" {
		flags.BoolVar(unseen, "waiting", false, "give up also those that wait behind a refused one or are being retried, with --yes")
		flags.BoolVar(yes, "yes", false, "with --waiting: give them up although they may never have been tried")
	}
	if err := commandline.Parse(flags, config, args, len(args), stdout); err != nil {
		return err
	}
	var numbers []uint64
	for _, word := range flags.Args() {
		n, err := number.Parse(word)
		if err != nil {
			return commandline.UsageError{Err: fmt.Errorf("%q is not the number of a message", word)}
		}
		numbers = append(numbers, n)
	}
	switch verb {
	case "list":
		named := (&decision{Numbers: numbers, Client: *client, All: len(numbers) == 0 && *client == ""}).names()
		wanted := func(l *letter) bool { return named(l) && (*all || len(numbers) > 0 || l.state == refused) }
		return listDead(ctx, *folder, wanted, *all || len(numbers) > 0, *asJSON, stdout, stderr)
	case "retry", "drop":
		given := map[bool]int{true: 1}
		if given[len(numbers) > 0]+given[*client != ""]+given[*all] != 1 {
			return commandline.UsageError{Err: errors.New("give numbers, --client or --all")}
		}
		d := decision{State: map[string]state{"retry": retried, "drop": dropped}[verb].String(), Numbers: numbers, Client: *client, All: *all, Waiting: *unseen}
		if d.Waiting && !*yes {
			return commandline.UsageError{Err: errors.New("--waiting gives up messages that may never have been tried: look at them with dead list --all, and add --yes")}
		}
		return decide(ctx, *folder, d, *asJSON, stdout, stderr)
	}
	return commandline.UsageError{Err: fmt.Errorf("there is no verb %q; use dead list, retry or drop", "dead "+verb)}
}

// deadLine is a line of honed-relay dead list.
type deadLine struct {
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	line
}

// listDead prints the open letters that pick chooses, the oldest first, and how many others wait unless all are wanted. It says
// on stderr what is damaged.
func listDead(ctx context.Context, folder string, pick func(*letter) bool, all, asJSON bool, stdout, stderr io.Writer) error {
	log, err := journal.OpenReader(folder, nil)
	if err != nil {
		return err
	}
	defer log.Close()
	index, err := readDead(ctx, log, func(err error) {
		fmt.Fprintln(stderr, "honed-relay: the dead-letter log is damaged; messages in it are lost:", err)
	})
	var loaded []message
	if err == nil {
		loaded, err = load(ctx, log, slices.DeleteFunc(index.sorted(), func(l *letter) bool { return !pick(l) }))
	}
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	var lines []deadLine
	for _, m := range loaded {
		l := index.letters[letterKey{m.log, m.Number}]
		lines = append(lines, deadLine{l.state.String(), l.reason, l.since.UTC(), m.line()})
	}
	err = commandline.PrintList(stdout, asJSON, lines, "NUMBER\tSTATE\tCLIENT\tEPOCH\tSEQ\tBYTES\tSINCE\tREASON", func(l deadLine) string {
		reason, _, _ := strings.Cut(l.Reason, "\n")
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s", l.Number, l.State, l.Client, l.Epoch, l.Seq, len(l.Data), l.Since.Format(time.RFC3339), reason)
	})
	if err != nil || asJSON || all || index.queued == 0 {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d more wait behind these or are being retried: --all lists them\n", index.queued)
	return err
}

// decide has the relay that runs carry out a decision, or does it itself if none does.
func decide(ctx context.Context, folder string, d decision, asJSON bool, stdout, stderr io.Writer) error {
	if _, err := os.Stat(folder); err != nil {
		return err // a new log is not wanted
	}
	var o outcome
	err := commandline.Control{Folder: folder}.Ask(ctx, http.MethodPost, deadPath, d, &o)
	if errors.Is(err, commandline.ErrNotRunning) {
		o, err = decideHere(ctx, folder, d, stderr)
	}
	switch {
	case err != nil:
		return commandline.OrInterrupted(ctx, err)
	case asJSON:
		return json.NewEncoder(stdout).Encode(o)
	}
	_, err = fmt.Fprintf(stdout, "%s: %d\n", d.State, o.Changed)
	return err
}

// decideHere carries out a decision while no relay runs.
func decideHere(ctx context.Context, folder string, d decision, stderr io.Writer) (o outcome, err error) {
	log, err := openDead(ctx, folder, 1, 0, nil)
	if err != nil {
		return o, err
	}
	o, err = log.carryOut(ctx, d)
	if log.damaged > 0 {
		fmt.Fprintf(stderr, "honed-relay: the dead-letter log is damaged in %d places; honed-relay dead list names them\n", log.damaged)
	}
	return o, errors.Join(err, log.close())
}

func (d *deadLog) carryOut(ctx context.Context, what decision) (o outcome, err error) {
	s := map[string]state{retried.String(): retried, dropped.String(): dropped}[what.State]
	d.mu.Lock()
	defer d.mu.Unlock()
	var letters []*letter
	found, named := map[uint64]bool{}, what.names()
	for l := range d.index.all() {
		if named(l) && (l.state == refused || what.Waiting) {
			letters, found[l.number] = append(letters, l), true
		}
	}
	for _, n := range what.Numbers {
		if !found[n] {
			return o, fmt.Errorf("the dead-letter log has no refused message %s; nothing was changed. drop --waiting gives up one that waits", number.Format(n))
		}
	}
	if s == pending {
		return o, fmt.Errorf("there is no decision %q", what.State)
	}
	w := deadWriter{d: d, ctx: ctx, now: time.Now(), store: d.log.AppendReserved}
	for _, l := range letters {
		if err := w.mark(l, s, l.reason); err != nil {
			return o, err
		}
	}
	if err = w.flush(); err == nil {
		err = d.shorten(ctx)
	}
	if err == nil && d.changed != nil {
		d.changed()
	}
	return outcome{len(letters)}, err
}

// control answers the verbs of a running relay.
func (d *deadLog) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+deadPath, func(w http.ResponseWriter, r *http.Request) {
		var what decision
		if err := json.NewDecoder(r.Body).Decode(&what); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		o, err := d.carryOut(context.WithoutCancel(r.Context()), what) // an append that is cut off breaks the log
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		commandline.AnswerJSON(w, o)
	})
	return mux
}
