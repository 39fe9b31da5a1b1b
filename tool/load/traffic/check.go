package traffic

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A check is a condition on an answer, for example
//
//	status == 201               length <= 4096
//	header Content-Type contains json
//	body contains <h1>Cart      body matches order-[0-9]+
//	json user.name == {{users.name}}
//	json items[0] exists
//
// The value is a template, and may be quoted.
type check struct {
	text   string // as it was written, for messages: values are not in it
	what   subject
	op     string
	want   Template
	number float64 // want as a number, if the comparison is numeric
	expr   *regexp.Regexp
}

// subject is a part of an answer.
type subject struct {
	kind string // status, length, body, header, json, cookie or regex
	name string // of a header or cookie
	path string // of a json field
	expr *regexp.Regexp
}

// take is a value of an answer that the session keeps for later steps.
type take struct {
	text string
	name string
	slot int
	what subject
}

// Answer is the answer to a step. A message has only a Body.
type Answer struct {
	Status int
	Head   []byte // of HTTP: the status line and the headers, if the request needs them
	Body   []byte // if the request needs it, MostBody of it at most
	Length int64  // of the whole body
}

// failure is the error of a check or a take. Its text appears in results, so it contains no
// values.
type failure struct{ step, what string }

func (f *failure) Error() string { return "step " + f.step + ": " + f.what }

// public returns a check without the value that it compares with.
func (k *check) public() string {
	if k.what.name == "" {
		return k.what.kind + " " + k.op
	}
	return k.what.kind + " " + k.what.name + " " + k.op
}

// public returns what is taken, without an expression.
func (t *take) public() string {
	if t.what.kind == "regex" {
		return t.what.kind
	}
	return t.text
}

// operators are the comparison operators; of two with the same beginning the longer comes first.
func operators() []string {
	return []string{"==", "!=", "<=", ">=", "<", ">", "contains", "matches", "exists"}
}

// checks compiles the checks of a step.
func (c *compiler) checks(p Plan, st Step) error {
	for _, text := range st.Checks {
		k, err := c.check(p, text)
		if err != nil {
			return fmt.Errorf("check %q: %w", text, err)
		}
		c.request.checks = append(c.request.checks, k)
		c.wants(k.what)
	}
	return c.canHold()
}

// wants records which parts of an answer a subject needs.
func (c *compiler) wants(s subject) {
	switch s.kind {
	case "header", "cookie":
		c.request.WantsHead = true
	case "body", "json", "regex":
		c.request.WantsBody = true
	}
}

func (c *compiler) check(p Plan, text string) (k check, err error) {
	k.text = text
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	k.what.kind = word
	if word == "header" || word == "json" {
		k.what.name, rest, _ = strings.Cut(rest, " ")
	}
	if !slices.Contains([]string{"status", "length", "body", "header", "json"}, word) {
		return k, fmt.Errorf("an answer has no %q; begin with status, length, body, header NAME or json FIELD", word)
	}
	if !p.Web && (word == "status" || word == "header") {
		return k, fmt.Errorf("a message has no %s; check its body or a json field", word)
	}
	if word == "json" {
		if k.what.path, err = parsePath(k.what.name); err != nil {
			return k, err
		}
	}
	rest = strings.TrimSpace(rest)
	for _, op := range operators() {
		if value, ok := strings.CutPrefix(rest, op); ok {
			k.op = op
			return k, c.compare(&k, unquoted(strings.TrimSpace(value)))
		}
	}
	return k, fmt.Errorf("it has no comparison; add one of %s", strings.Join(operators(), " "))
}

func unquoted(text string) string {
	if len(text) > 1 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

// compare parses the operator and the value of a check.
func (c *compiler) compare(k *check, value string) (err error) {
	if k.want, err = c.template("value", value, plain); err != nil {
		return err
	}
	text, isLiteral := k.want.Literal()
	isNumber := k.what.kind == "status" || k.what.kind == "length"
	switch {
	case k.op == "exists":
		if value != "" || k.what.kind != "header" && k.what.kind != "json" {
			return errors.New("exists is for headers and json fields, without a value; compare with ==")
		}
		return nil
	case k.op == "matches":
		if !isLiteral {
			return errors.New("an expression cannot have values in it; use contains")
		}
		if k.expr, err = regexp.Compile(string(text)); err != nil {
			return fmt.Errorf("%w; see https://pkg.go.dev/regexp/syntax", err)
		}
	case isNumber && k.op == "contains":
		return fmt.Errorf("a %s is a number; compare it with ==, !=, <, <=, > or >=", k.what.kind)
	case isNumber || k.op[0] == '<' || k.op[0] == '>':
		if k.number, err = strconv.ParseFloat(string(text), 64); err != nil || !isLiteral {
			return fmt.Errorf("%q is not a number; write it in digits", value)
		}
	}
	return nil
}

// canHold refuses checks that no status that counts as success passes.
func (c *compiler) canHold() error {
	r := c.request
	var digits []byte
	for status := 100; ; status++ {
		if status == 1000 {
			return fmt.Errorf("none of the status codes that count as success (%s) passes the status checks; make the step's status and its checks agree", statusesText(r.Statuses))
		}
		good := slices.Contains(r.Statuses, status) || len(r.Statuses) == 0 && status >= 200 && status < 400
		for i := range r.checks {
			k := &r.checks[i]
			good = good && (k.what.kind != "status" || k.passes(int64(status), &digits))
		}
		if good {
			return nil
		}
	}
}

func statusesText(statuses []int) string {
	if len(statuses) == 0 {
		return "200 to 399"
	}
	return strings.Trim(fmt.Sprint(statuses), "[]")
}

// Holds reports whether an operator of comparison, such as <=, holds for an outcome of cmp.Compare.
func Holds(op string, outcome int) bool {
	switch op {
	case "==":
		return outcome == 0
	case "!=":
		return outcome != 0
	case "<":
		return outcome < 0
	case "<=":
		return outcome <= 0
	case ">":
		return outcome > 0
	case ">=":
		return outcome >= 0
	}
	return true
}

// holds reports whether an answer passes the check.
func (k *check) holds(s *Session, a *Answer) bool {
	switch k.what.kind {
	case "status":
		return k.passes(int64(a.Status), &s.found)
	case "length":
		return k.passes(a.Length, &s.found)
	}
	got, ok := k.what.find(s, a)
	switch k.op {
	case "exists":
		return ok
	case "matches":
		return ok && k.expr.Match(got)
	case "<", "<=", ">", ">=":
		n, err := strconv.ParseFloat(string(got), 64)
		return ok && err == nil && Holds(k.op, cmp.Compare(n, k.number))
	}
	s.want = k.want.Append(s.want[:0], s)
	switch k.op {
	case "contains":
		return ok && bytes.Contains(got, s.want)
	case "!=":
		return ok && !bytes.Equal(got, s.want)
	}
	return ok && bytes.Equal(got, s.want)
}

// passes reports whether a status or a length passes the check. It writes the digits that an
// expression matches into digits.
func (k *check) passes(n int64, digits *[]byte) bool {
	if k.expr == nil {
		return Holds(k.op, cmp.Compare(float64(n), k.number))
	}
	*digits = strconv.AppendInt((*digits)[:0], n, 10)
	return k.expr.Match(*digits)
}

// find returns a part of an answer, valid until the session's next answer.
func (w *subject) find(s *Session, a *Answer) (value []byte, ok bool) {
	switch w.kind {
	case "body":
		return a.Body, true
	case "header":
		return headerOf(a.Head, w.name)
	case "cookie":
		for line := range headers(a.Head, "set-cookie") {
			if name, value := splitCookie(line); string(name) == w.name {
				return value, true
			}
		}
	case "json":
		s.found, ok = findField(s.found[:0], a.Body, w.path)
		return s.found, ok
	case "regex":
		at := w.expr.FindSubmatchIndex(a.Body)
		if at == nil {
			return nil, false
		}
		if len(at) > 2 && at[2] >= 0 {
			at = at[2:]
		}
		return a.Body[at[0]:at[1]], true
	}
	return nil, false
}

// headerOf returns the value of the first header with that name.
func headerOf(head []byte, name string) ([]byte, bool) {
	for value := range headers(head, name) {
		return value, true
	}
	return nil, false
}

// headers returns the values of the headers with that name.
func headers(head []byte, name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(head) {
			if len(line) > len(name) && line[len(name)] == ':' && isNamed(line[:len(name)], name) && !yield(bytes.TrimSpace(line[len(name)+1:])) {
				return
			}
		}
	}
}

// isNamed compares b with ASCII text, ignoring case. The lengths rule out the letters of more than
// one byte that fold to ASCII.
func isNamed(b []byte, name string) bool {
	return len(b) == len(name) && strings.EqualFold(string(b), name)
}

// takes compiles what a step takes from its answer.
func (c *compiler) takes(p Plan, st Step) error {
	for _, t := range st.Takes {
		what, err := subjectOfTake(t.From)
		if err == nil {
			err = checkName("a value", t.Name)
		}
		switch {
		case err != nil:
		case t.Name == "" || t.Name == "n" || strings.ContainsAny(t.Name, ".:"):
			err = errors.New("a value cannot have that name; use letters, digits, - and _")
		case slices.Contains(c.flow.taken, t.Name) && slices.ContainsFunc(c.request.takes, func(o take) bool { return o.name == t.Name }):
			err = errors.New("it is taken twice; remove one of them")
		case !p.Web && (what.kind == "header" || what.kind == "cookie"):
			err = fmt.Errorf("a message has no %s; take a json field, a regex or the body", what.kind)
		case c.request.Method == "HEAD" && what.kind != "header" && what.kind != "cookie":
			err = errors.New("answers to HEAD have no body; use GET")
		}
		if err != nil {
			return fmt.Errorf("take.%s: %w", t.Name, err)
		}
		slot := slices.Index(c.flow.taken, t.Name)
		if slot < 0 {
			slot = len(c.flow.taken)
			c.flow.taken = append(c.flow.taken, t.Name)
		}
		c.request.takes = append(c.request.takes, take{t.From, t.Name, slot, what})
		c.wants(what)
	}
	return nil
}

func subjectOfTake(text string) (s subject, err error) {
	s.kind, s.name, _ = strings.Cut(strings.TrimSpace(text), " ")
	s.name = strings.TrimSpace(s.name)
	switch s.kind {
	case "header", "cookie":
		if s.name == "" {
			return s, fmt.Errorf("name the %s, as in %[1]s sid", s.kind)
		}
	case "json":
		s.path, err = parsePath(s.name)
	case "regex":
		if s.expr, err = regexp.Compile(s.name); err != nil {
			err = fmt.Errorf("%w; see https://pkg.go.dev/regexp/syntax", err)
		}
	case "body":
	default:
		err = fmt.Errorf("an answer has no %q; use header NAME, cookie NAME, json FIELD, regex EXPRESSION or body", text)
	}
	return s, err
}
