package spec

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/traffic"
)

// requests are traffic of more than one request.
type requests struct {
	files   *files
	flows   []traffic.Flow // of a file
	file    string         // which has them
	data    []traffic.Data
	hashes  string // of the files of data, which are saved instead of the values
	checks  []string
	cookies bool
}

func (f *requests) settings() []setting {
	return []setting{
		{name: "data", value: &value{kind: "NAME=FILE", set: f.setData, text: func() string { return f.hashes }, table: f.tableOfData, between: " "}, secrecy: private,
			usage: "a file of values for requests, CSV or JSON lines: NAME=FILE, NAME=FILE,random or NAME=FILE,once; {{NAME.COLUMN}} inserts a value; repeat for more"},
		{name: "check", value: &f.checks, secrecy: private, usage: "a check of every answer, as in 'json user.name == ada', 'header Age < 60' or 'body contains ok'; repeat for more"},
		{name: "cookies", value: &f.cookies, usage: "give every session a cookie jar", kinds: web, instead: "use http:// for a web service"},
		{name: "flow", value: &value{kind: "FLOW", set: notFlows, text: f.flowsText, table: f.tableOfFlows}, secrecy: private, hidden: true,
			usage: "sessions of several requests, as a scenario file has them"},
	}
}

// notFlows refuses flows on the command line.
func notFlows(string) error {
	return errors.New("flows need a file; write them there, as in [[flow]] with a [[flow.step]], and name it after --scenario")
}

// flowsText is the whole table, for the hash that is saved.
func (f *requests) flowsText() string {
	if f.flows == nil {
		return ""
	}
	return fmt.Sprintf("%#v", f.flows)
}

func (f *requests) tableOfFlows(table any, file string) error {
	tables, ok := tablesOf(table)
	if !ok {
		return errors.New("it must be tables; write each as [[flow]]")
	}
	for i, t := range tables {
		flow, err := f.readFlow(t, filepath.Dir(file))
		if err != nil {
			return place("flow", t["name"], i, err)
		}
		f.flows = append(f.flows, flow)
	}
	f.file = file
	return nil
}

// tablesOf returns a list's tables, as TOML and JSON decode them.
func tablesOf(value any) (tables []map[string]any, ok bool) {
	switch v := value.(type) {
	case []map[string]any:
		return v, true
	case []any:
		for _, each := range v {
			t, ok := each.(map[string]any)
			if !ok {
				return nil, false
			}
			tables = append(tables, t)
		}
		return tables, len(tables) > 0
	}
	return nil, false
}

// placed is a mistake in a table: a flow, or a step.
type placed struct {
	what, where string
	err         error
}

func (p *placed) Error() string { return p.where + ": " + p.err.Error() }

func (p *placed) Unwrap() error { return p.err }

// place names the table of a mistake: by its name, else by its number.
func place(what string, name any, i int, err error) error {
	where, ok := name.(string)
	if where = what + " " + where; !ok || where == what+" " {
		where = fmt.Sprintf("%s %d", what, i+1)
	}
	return &placed{what, where, err}
}

// fields maps the keys of a table to their parsers.
type fields map[string]func(any) error

// read parses every key of a table.
func (f fields) read(table map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		take, ok := f[key]
		if !ok {
			keys := slices.Sorted(maps.Keys(f))
			return fmt.Errorf("unknown key %q; %s", key, exit.DidYouMean(key, keys, "use one of "+strings.Join(keys, ", ")))
		}
		if err := take(table[key]); err != nil {
			return under(key, err)
		}
	}
	return nil
}

// under says under which key a mistake is, unless it names one of the key's tables.
func under(key string, err error) error {
	if in := new(placed); errors.As(err, &in) && in.what == key {
		return err
	}
	return fmt.Errorf("%s: %w", key, err)
}

func intoText(to *string) func(any) error {
	return func(v any) error {
		texts, err := asTexts(v)
		if err != nil || len(texts) != 1 {
			return errors.New("it must be a string")
		}
		*to = texts[0]
		return nil
	}
}

func intoDuration(to *time.Duration) func(any) error {
	return func(v any) (err error) {
		text := fmt.Sprint(v)
		if *to, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("%q is not a duration; write it as in 500ms", text)
		}
		return nil
	}
}

func intoHeader(to *[]traffic.Field) func(any) error {
	return func(v any) error {
		texts, err := asTexts(v)
		for _, text := range texts {
			name, value, ok := strings.Cut(text, ":")
			if !ok || name == "" {
				return fmt.Errorf("%q is not a header; write it as in \"Accept: text/html\"", text)
			}
			*to = append(*to, traffic.Field{Name: name, Value: strings.TrimSpace(value)})
		}
		return err
	}
}

func intoTexts(to *[]string) func(any) error {
	return func(v any) (err error) {
		*to, err = asTexts(v)
		return err
	}
}

func (f *requests) readFlow(table map[string]any, folder string) (flow traffic.Flow, err error) {
	var header []traffic.Field // of all steps
	err = fields{
		"name": intoText(&flow.Name), "header": intoHeader(&header),
		"weight": func(v any) error {
			w, err := strconv.ParseFloat(fmt.Sprint(v), 64)
			if flow.Weight = w; err != nil || !(w > 0) {
				return fmt.Errorf("it cannot be %v; write a number above 0, as in weight = 70", v)
			}
			return nil
		},
		"step": func(v any) error {
			tables, ok := tablesOf(v)
			if !ok {
				return errors.New("it must be tables; write each as [[flow.step]]")
			}
			for i, t := range tables {
				step, err := f.readStep(t, folder)
				if err != nil {
					return place("step", t["name"], i, err)
				}
				flow.Steps = append(flow.Steps, step)
			}
			return nil
		},
	}.read(table)
	for i := range flow.Steps {
		inherit(&flow.Steps[i], header)
	}
	return flow, err
}

// inherit adds headers to a step that does not set them itself.
func inherit(step *traffic.Step, header []traffic.Field) {
	own := step.Header
	for _, h := range header {
		if !slices.ContainsFunc(own, func(o traffic.Field) bool { return strings.EqualFold(o.Name, h.Name) }) {
			step.Header = append(slices.Clip(step.Header), h)
		}
	}
}

func (f *requests) readStep(table map[string]any, folder string) (step traffic.Step, err error) {
	carried := func(v any) error {
		var text string
		if err := intoText(&text)(v); err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(text, "@"); ok {
			text = "@" + beside(folder, name)
		}
		content, err := f.files.content(text)
		step.Body = string(content)
		return err
	}
	return step, fields{
		"name": intoText(&step.Name), "method": intoText(&step.Method), "path": intoText(&step.Path),
		"body": carried, "request": carried,
		"check":  intoTexts(&step.Checks),
		"header": intoHeader(&step.Header), "timeout": intoDuration(&step.Timeout),
		"status": func(v any) error {
			texts, err := asTexts(v)
			if err != nil {
				return err
			}
			step.Statuses, err = parseStatuses(strings.Join(texts, ","))
			return err
		},
		"take": func(v any) error {
			names, ok := v.(map[string]any)
			if !ok {
				return errors.New("it must be a table of names; write it as in take.token = \"json token\"")
			}
			for _, name := range slices.Sorted(maps.Keys(names)) {
				var from string
				if err := intoText(&from)(names[name]); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				step.Takes = append(step.Takes, traffic.Take{Name: name, From: from})
			}
			return nil
		},
		"think": func(v any) (err error) {
			var text string
			if err := intoText(&text)(v); err != nil {
				return err
			}
			least, most, isRange := strings.Cut(text, "..")
			if step.Think, err = time.ParseDuration(least); err == nil && isRange {
				step.ThinkMost, err = time.ParseDuration(most)
			}
			if err != nil {
				return fmt.Errorf("%q is not a duration; write it as in 500ms or 1s..3s", text)
			}
			return nil
		},
	}.read(table)
}

// beside returns a file's path, relative to the folder of the scenario that names it.
func beside(folder, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(folder, name)
}

// setData parses NAME=FILE or NAME=FILE,ORDER.
func (f *requests) setData(text string) error {
	name, file, ok := strings.Cut(text, "=")
	if !ok || name == "" || file == "" {
		return errors.New("not data; write them as in users=users.csv or users=users.csv,random")
	}
	d := traffic.Data{Name: name, File: file}
	for _, order := range []string{traffic.InOrder, traffic.Random, traffic.Once} {
		if before, ok := strings.CutSuffix(file, ","+order); ok {
			d.File, d.Order = before, order
		}
	}
	return f.addData(d)
}

func (f *requests) addData(d traffic.Data) error {
	d.Open = f.files.open
	file, err := f.files.open(d.File)
	if err != nil {
		return fmt.Errorf("the file cannot be read: %w; name a file of CSV or JSON lines", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("the file cannot be read: %w; name a file of CSV or JSON lines", err)
	}
	f.data = append(f.data, d)
	f.hashes += fmt.Sprintf("%s %s %.12x ", d.Name, d.Order, sum.Sum(nil))
	return nil
}

func (f *requests) tableOfData(table any, file string) error {
	tables, ok := table.(map[string]any)
	if !ok {
		return errors.New("it must be tables; write each as [data.users]")
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		table, ok := tables[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s: it must be a table; write it as [data.%[1]s]", name)
		}
		d := traffic.Data{Name: name}
		if err := (fields{"file": intoText(&d.File), "order": intoText(&d.Order)}).read(table); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if d.File == "" {
			return fmt.Errorf("%s: it has no file; name one, as in file = \"%[1]s.csv\"", name)
		}
		d.File = beside(filepath.Dir(file), d.File)
		if err := f.addData(d); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// asked reports whether the load is more than one constant request.
func (f *requests) asked() bool {
	return len(f.flows) > 0 || len(f.data) > 0 || len(f.checks) > 0 || f.cookies
}

// completeTraffic compiles the traffic, if the load is more than one constant request.
func (f *Load) completeTraffic(command string) error {
	t, given := &f.requests, f.settings.given
	switch {
	case !t.asked():
		return nil
	case len(t.flows) > 0 && (given("method") || given("body") || given("request")):
		return exit.Usagef("%s: --method, --body and --request do not apply to flows; set them in the steps of the flows", command)
	case given("size"):
		return exit.Usagef("%s: --size does not apply to traffic; write the content, as in --request or a step's request", command)
	}
	if err := f.fixedHandshake(command); err != nil {
		return err
	}
	script, err := traffic.Compile(f.trafficPlan())
	if err != nil {
		if t.file != "" {
			err = fmt.Errorf("%s: %w", t.file, err)
		}
		return exit.Usagef("%s: %w", command, err)
	}
	f.Plan.Traffic, f.Plan.Content, f.Plan.Size = script, nil, 0
	f.Plan.Echo = f.Plan.Echo && given("echo")
	return nil
}

// trafficPlan returns the plan of the flags and the file.
func (f *Load) trafficPlan() traffic.Plan {
	t := &f.requests
	target, isWeb := f.Plan.Target.(codec.HTTP)
	messages, isMessages := f.Plan.Target.(codec.Messages)
	p := traffic.Plan{
		Web: isWeb, OneLine: isMessages && messages.Framing == codec.Framing{}, Seed: f.Plan.Seed,
		Data: t.data, Cookies: t.cookies,
	}
	one := traffic.Step{Method: target.Method, Body: string(target.Body)}
	if !isWeb {
		one.Body = string(f.target.content)
	}
	if p.Flows = t.flows; len(p.Flows) == 0 {
		p.Flows = []traffic.Flow{{Steps: []traffic.Step{one}}}
	}
	// Each run completes a copy of the flows, so that those of the file stay unchanged.
	p.Flows = slices.Clone(p.Flows)
	for i := range p.Flows {
		flow := &p.Flows[i]
		flow.Steps = slices.Clone(flow.Steps)
		for j := range flow.Steps {
			f.completeStep(&flow.Steps[j], target.Header)
		}
	}
	f.splitTarget(&p, target, isWeb)
	return p
}

// completeStep adds the flags for all steps to a step.
func (f *Load) completeStep(step *traffic.Step, header http.Header) {
	step.Checks = slices.Concat(f.requests.checks, step.Checks)
	if len(step.Statuses) == 0 {
		step.Statuses = f.target.statuses
	}
	var all []traffic.Field
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			all = append(all, traffic.Field{Name: name, Value: value})
		}
	}
	inherit(step, all)
}

// splitTarget moves the path of a URL with values in it to the steps.
func (f *Load) splitTarget(p *traffic.Plan, target codec.HTTP, isWeb bool) {
	server, path := splitURL(target.URL)
	if !isWeb || !hasValues(path) {
		return
	}
	target.URL = server + "/"
	f.Plan.Target = target
	for i := range p.Flows {
		for j := range p.Flows[i].Steps {
			if step := &p.Flows[i].Steps[j]; step.Path == "" {
				step.Path = "/" + strings.TrimPrefix(path, "/")
			}
		}
	}
}

// splitURL splits a URL before its path, or before its query if it has no path.
func splitURL(url string) (server, path string) {
	scheme, rest, _ := strings.Cut(url, "://")
	at := strings.IndexAny(rest, "/?")
	if socket, ok := strings.CutPrefix(rest, "unix:"); ok {
		if at = strings.IndexByte(socket, ':'); at >= 0 {
			at += len("unix:") + len(":")
		}
	}
	if at < 0 {
		return url, ""
	}
	at += len(scheme) + len("://")
	return url[:at], url[at:]
}

func hasValues(text string) bool { return strings.Contains(text, "{{") }

// fixedHandshake refuses values in the handshake of WebSocket, which belongs to no step.
func (f *Load) fixedHandshake(command string) error {
	target, isWebSocket := f.Plan.Target.(codec.WebSocket)
	if !isWebSocket {
		return nil
	}
	what := ""
	if _, path := splitURL(target.URL); hasValues(path) {
		what = "the URL"
	}
	for _, name := range slices.Sorted(maps.Keys(target.Header)) {
		if slices.ContainsFunc(target.Header[name], hasValues) {
			what = "the header " + name
		}
	}
	if what == "" {
		return nil
	}
	return exit.Usagef("%s: %s has {{…}}, but the handshake of WebSocket is the same for all connections; write values in the messages (--request, or a step's request)", command, what)
}
