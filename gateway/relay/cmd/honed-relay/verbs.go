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
	Changed int    `json:"changed"`
	Error   string `json:"error,omitempty"`
}

const deadHelp = `honed-relay dead decides what becomes of the messages that the destination refused.

Usage:
  honed-relay dead list [--client C] [--all] [--json]   what was refused and why; --all: and what waits
  honed-relay dead show NUMBER                          one message, with its data
  honed-relay dead retry NUMBER… | --client C | --all   deliver refused ones again, and then what waits behind them
  honed-relay dead drop NUMBER… | --client C | --all    give refused ones up; what waits behind them is delivered
  honed-relay dead drop … --waiting                     show what waits, too; with --yes give all of it up

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
	if verb != "show" {
		flags.BoolVar(all, "all", false, map[string]string{
			"list": "list also those that wait behind a refused one", "retry": "deliver all refused ones again", "drop": "give all refused ones up",
		}[verb])
		flags.StringVar(client, "client", "", "only those of this `CLIENT`")
	}
	if verb == "drop" {
		flags.BoolVar(unseen, "waiting", false, "give up also those that wait behind a refused one or are being retried: shows them")
		flags.BoolVar(yes, "yes", false, "with --waiting: give them up")
	}
	words := len(args)
	if verb == "list" {
		words = 0
	}
	if err := commandline.Parse(flags, config, args, words, stdout); err != nil {
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
		wanted := func(l *letter) bool { return (*client == "" || l.client == *client) && (*all || l.state == refused) }
		return listDead(ctx, *folder, wanted, *all, *asJSON, stdout, stderr)
	case "show":
		if len(numbers) != 1 {
			return commandline.UsageError{Err: errors.New("give the number of one message, as honed-relay dead list prints it")}
		}
		return showDead(ctx, *folder, numbers[0], stdout, stderr)
	case "retry", "drop":
		given := map[bool]int{true: 1}
		if given[len(numbers) > 0]+given[*client != ""]+given[*all] != 1 {
			return commandline.UsageError{Err: errors.New("give numbers, --client or --all")}
		}
		d := decision{State: map[string]state{"retry": retried, "drop": dropped}[verb].String(), Numbers: numbers, Client: *client, All: *all, Waiting: *unseen}
		if d.Waiting && !*yes {
			if err := d.show(ctx, *folder, stderr); err != nil {
				return err
			}
		}
		return decide(ctx, *folder, d, *asJSON, stdout, stderr)
	}
	return commandline.UsageError{Err: fmt.Errorf("there is no verb %q; use dead list, show, retry or drop", "dead "+verb)}
}

// deadLine is a line of honed-relay dead list and show.
type deadLine struct {
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	line
}

// readDeadLines returns the open letters that pick chooses, the oldest first. It says on stderr what is damaged.
func readDeadLines(ctx context.Context, folder string, pick func(*letter) bool, stderr io.Writer) (all []deadLine, waiting int, err error) {
	log, err := journal.OpenReader(folder, nil)
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	index, err := readDead(ctx, log, func(err error) {
		fmt.Fprintln(stderr, "honed-relay: the dead-letter log is damaged; messages in it are lost:", err)
	})
	if err != nil {
		return nil, 0, err
	}
	letters := slices.DeleteFunc(index.sorted(), func(l *letter) bool { return !pick(l) })
	loaded, err := load(ctx, log, letters)
	if err != nil {
		return nil, 0, err
	}
	for _, m := range loaded {
		l := index.letters[letterKey{m.log, m.Number}]
		all = append(all, deadLine{l.state.String(), l.reason, l.since.UTC(), m.line()})
	}
	return all, index.queued, nil
}

// listDead prints the open letters that pick chooses, and how many others wait unless all are wanted.
func listDead(ctx context.Context, folder string, pick func(*letter) bool, all, asJSON bool, stdout, stderr io.Writer) error {
	lines, queued, err := readDeadLines(ctx, folder, pick, stderr)
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	err = commandline.PrintList(stdout, asJSON, lines, "NUMBER\tSTATE\tCLIENT\tEPOCH\tSEQ\tBYTES\tSINCE\tREASON", func(l deadLine) string {
		reason, _, _ := strings.Cut(l.Reason, "\n")
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s", l.Number, l.State, l.Client, l.Epoch, l.Seq, len(l.Data), l.Since.Format(time.RFC3339), reason)
	})
	if err != nil || asJSON || all || queued == 0 {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d more wait behind these or are being retried: --all lists them\n", queued)
	return err
}

// show shows what a decision gives up that nobody has confirmed, and refuses it.
func (d *decision) show(ctx context.Context, folder string, stderr io.Writer) error {
	named, shown := d.names(), 0
	err := listDead(ctx, folder, func(l *letter) bool {
		if named(l) {
			shown++
		}
		return named(l)
	}, true, false, stderr, stderr)
	if err == nil && shown > 0 {
		err = commandline.UsageError{Err: fmt.Errorf("--waiting gives up these %d messages, which may never have been tried; nothing was changed, add --yes", shown)}
	}
	return err
}

func showDead(ctx context.Context, folder string, wanted uint64, stdout, stderr io.Writer) error {
	lines, _, err := readDeadLines(ctx, folder, func(l *letter) bool { return l.number == wanted }, stderr)
	if err == nil && len(lines) == 0 {
		err = fmt.Errorf("the dead-letter log has no message %s that is refused or waits", number.Format(wanted))
	}
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	return commandline.PrintList(stdout, true, lines, "", nil)
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
	case o.Error != "":
		return errors.New(o.Error)
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
	o = log.carryOut(ctx, d)
	if log.damaged > 0 {
		fmt.Fprintf(stderr, "honed-relay: the dead-letter log is damaged in %d places; honed-relay dead list names them\n", log.damaged)
	}
	return o, log.close()
}

func (d *deadLog) carryOut(ctx context.Context, what decision) outcome {
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
			return outcome{Error: fmt.Sprintf("the dead-letter log has no refused message %s; nothing was changed. drop --waiting gives up one that waits", number.Format(n))}
		}
	}
	if s == pending {
		return outcome{Error: fmt.Sprintf("there is no decision %q", what.State)}
	}
	w := deadWriter{d: d, ctx: ctx, now: time.Now(), store: d.log.AppendReserved}
	for _, l := range letters {
		if err := w.mark(l, s, l.reason); err != nil {
			return outcome{Error: err.Error()}
		}
	}
	_, err := w.flush()
	if err == nil {
		err = d.shorten(ctx)
	}
	if err != nil {
		return outcome{Error: err.Error()}
	}
	if d.changed != nil {
		d.changed()
	}
	return outcome{Changed: len(letters)}
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
		commandline.AnswerJSON(w, d.carryOut(context.WithoutCancel(r.Context()), what)) // an append that is cut off breaks the log
	})
	return mux
}
