package traffic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// file is a file of that name with a text.
func file(tb testing.TB, name, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// odd are rows with everything that has to be escaped somewhere.
const odd = "name,id\nada,1\n\"b, \"\"c\"\" \u00fc/\n\",2\n,3\n"

// one is a plan of one flow.
func one(tb testing.TB, steps ...Step) Plan {
	tb.Helper()
	return Plan{Web: true, Seed: 9, Data: []Data{{Name: "u", File: file(tb, "u.csv", odd)}}, Flows: []Flow{{Name: "f", Steps: steps}}}
}

func TestTemplatesEscapeValues(t *testing.T) {
	script := must[*Script](t)(Compile(one(t, Step{
		Path: "/a/{{u.name}}?n={{n}}&raw={{u.name|raw}}", Body: `{"n": "{{u.name|json}}", "u": "{{ u.name | url }}", "b": "{{u.name|base64}}", "p": "{{u.name}}"}`,
		Header: []Field{{"X-Name", "<{{u.name}}>"}},
	})))
	var s Session
	s.Start(script, 0, 1)
	r := s.Request()
	if got, want := string(r.Path.Append(nil, &s)), `/a/b%2C%20%22c%22%20%C3%BC%2F%0A?n=1&raw=b,%20"c"%20%C3%BC/%0A`; got != want {
		t.Errorf("the path is %q, want %q", got, want)
	}
	if got, want := string(r.Header[0].Value.Append(nil, &s)), "<b, \"c\" ü/ >"; got != want {
		t.Errorf("the header is %q, want %q", got, want)
	}
	want := `{"n": "b, \u0022c\u0022 ü/\u000A", "u": "b%2C%20%22c%22%20%C3%BC%2F%0A", "b": "YiwgImMiIMO8Lwo=", "p": "b, "c" ü/` + "\n" + `"}`
	if got := string(r.Body.Append(nil, &s)); got != want {
		t.Errorf("the body is %q, want %q", got, want)
	}
	if most := script.Most(); most < len(want)+60 {
		t.Errorf("the longest request has %d bytes", most)
	}
}

// A session's values are those of its number, however it is started, and random ones
// are in their bounds and all of them.
func TestValuesAreOfTheNumber(t *testing.T) {
	plan := one(t, Step{Path: "/{{u.id}}/{{random:5..7}}/{{random:0..9}}"})
	plan.Data[0].Order = Random
	script := must[*Script](t)(Compile(plan))
	seen := map[string]int{}
	var s Session
	for n := range uint64(3000) {
		s.Start(script, 0, n)
		text := s.Request().Path.Append(nil, &s)
		s.Start(script, 0, n+1)
		s.Start(script, 0, n)
		if again := s.Request().Path.Append(nil, &s); !bytes.Equal(text, again) {
			t.Fatalf("session %d has %q, then %q", n, text, again)
		}
		seen[string(text)]++
	}
	if len(seen) != 3*3*10 {
		t.Errorf("%d of 90 values", len(seen))
	}
	for text, n := range seen {
		if n < 10 || n > 70 {
			t.Errorf("%q %d times, about 33 expected", text, n)
		}
	}
}

func TestChecksAndTakes(t *testing.T) {
	answer := Answer{
		Status: 200, Length: 64,
		Head: []byte("HTTP/1.1 200 OK\r\ncontent-type: text/json \r\nSet-Cookie: a=1; Path=/\r\nSet-Cookie: sid=x=y; HttpOnly\r\nEmpty:\r\n\r\n"),
		Body: []byte(`{"user": {"name": "b, \"c\" ü/\n", "id": 2}, "list": [1, {"x": true}, null], "a\u0062c": -1.5e1, "": ""}`),
	}
	for check, holds := range map[string]bool{
		"status == 200": true, "status != 200": false, "status < 300": true, "status >= 201": false,
		"status matches ^[23]": true, "status matches ^20[1-9]$": false,
		"length == 64": true, "length <= 10": false, "length matches ^6.$": true, "length matches ^[7-9]": false,
		"header Content-Type == text/json": true, "header Content-Type contains \"json\"": true, "header X exists": false, "header Empty exists": true,
		"header Content-Type matches ^text/.*n$": true, "header Content-Type != text/json": false, "header X != y": false,
		"body contains {{u.id}}": true, "body contains nothing": false, "body matches \"id\": [0-9]}": true,
		"json user.name == {{u.name}}": true, "json user.id == {{u.id}}": true, "json user.id == 2": true, "json user.id > 1.5": true, "json user.id > 2": false,
		"json list[0] == 1": true, "json list.1.x == true": true, "json list[2] == null": true, "json list[3] exists": false, "json user exists": true,
		"json abc < -14": true, "json user.name > 1": false, "json list[1] == '{\"x\": true}'": true, "json nobody != 1": false,
	} {
		script, err := Compile(one(t, Step{Checks: []string{check}}))
		if err != nil {
			t.Errorf("%s: %v", check, err)
			continue
		}
		var s Session
		s.Start(script, 0, 1)
		a := answer
		if a.Length = int64(len(a.Body)); strings.HasPrefix(check, "length") {
			a.Length, a.Body = 64, a.Body[:0]
		}
		err = s.Answer(a)
		if (err == nil) != holds {
			t.Errorf("%s: %v", check, err)
		}
		if said := fmt.Sprint(err); err != nil && !strings.Contains(said, "step f: the answer fails check 1, "+strings.Fields(check)[0]+" ") || strings.Contains(said, "text/json") {
			t.Errorf("%s: the error is %q", check, said)
		}
	}
	for from, want := range map[string]string{
		"header Content-Type": "text/json", "cookie sid": "x=y", "json user.id": "2", "json user.name": "b, \"c\" ü/\n",
		`regex "id": (\d)`: "2", `regex "i.": \d`: `"id": 2`, "body": string(answer.Body),
		"header X": "", "cookie b": "", "json user.x": "", "regex z+": "",
	} {
		script := must[*Script](t)(Compile(one(t, Step{Takes: []Take{{"v", from}}}, Step{Body: "{{v}}"})))
		var s Session
		s.Start(script, 0, 1)
		a := answer
		a.Length = int64(len(a.Body))
		err := s.Answer(a)
		if s.Next(); want != "" != (err == nil) || string(s.Request().Body.Append(nil, &s)) != want {
			t.Errorf("%s is %q, want %q (%v)", from, s.Request().Body.Append(nil, &s), want, err)
		}
	}
}

// What cannot be says where it is and what to do.
func TestPlansThatCannotBe(t *testing.T) {
	with := func(change func(*Plan)) Plan {
		p := one(t, Step{Path: "/"})
		change(&p)
		return p
	}
	step := func(s Step) Plan { return with(func(p *Plan) { p.Flows[0].Steps[0] = s }) }
	data := func(name, text string) Plan {
		return with(func(p *Plan) { p.Data[0].File = file(t, name, text) })
	}
	for says, p := range map[string]Plan{
		"there is no flow; write one":                                                              {},
		"flow f: it has no step; write one, as in [[flow.step]]":                                   with(func(p *Plan) { p.Flows[0].Steps = nil }),
		"flow f: weight: it cannot be -1; use a number above 0":                                    with(func(p *Plan) { p.Flows[0].Weight = -1 }),
		"flow 2 has no name; give it one":                                                          with(func(p *Plan) { p.Flows = append(p.Flows, Flow{}) }),
		"flow f: there are two flows of that name; give one another name":                          with(func(p *Plan) { p.Flows = append(p.Flows, p.Flows[0]) }),
		`a flow cannot have the name "a b"; use letters`:                                           with(func(p *Plan) { p.Flows[0].Name = "a b" }),
		`a step cannot have the name "service"; use letters`:                                       step(Step{Name: "service"}),
		"there are two steps of that name; give one another name":                                  with(func(p *Plan) { p.Flows[0].Steps = []Step{{Name: "x"}, {Name: "x"}} }),
		"path: {{ is not closed; write a value as in {{users.name}}":                               step(Step{Path: "/{{u.id"}),
		"path: {{u}}: data have no value of their own; name a column, as in {{u.name}}":            step(Step{Path: "/{{u}}"}),
		"path: {{v}}: no earlier step of the flow takes v; take it, as in":                         step(Step{Path: "/{{v}}", Takes: []Take{{"v", "body"}}}),
		"{{random:9..1}}: there are no such bounds; write a random number as in {{random:1..100}}": step(Step{Path: "/{{random:9..1}}"}),
		`path: "/a b" has blanks, # or letters that are not ASCII; write them as %20`:              step(Step{Path: "/a b"}),
		"header X: it has a control character; keep it on one line":                                step(Step{Header: []Field{{"X", "a\r\nb"}}}),
		`check "status == 99": none of the status codes that count as success`:                     {},
		"none of the status codes that count as success (200 to 399) passes the status checks":     step(Step{Checks: []string{"status == 404"}}),
		"none of the status codes that count as success (201) passes the status checks":            step(Step{Statuses: []int{201}, Checks: []string{"status matches 5.."}}),
		`check "json a < b": "b" is not a number; write it in digits`:                              step(Step{Checks: []string{"json a < b"}}),
		`check "status contains 2": a status is a number; compare it with ==`:                      step(Step{Checks: []string{"status contains 2"}}),
		`check "body": it has no comparison; add one of ==`:                                        step(Step{Checks: []string{"body"}}),
		`check "body matches (": error parsing regexp: missing closing ): ` + "`(`; see http":      step(Step{Checks: []string{"body matches ("}}),
		`check "json a..b == 1": there is no field "a..b"; write it as in user.id`:                 step(Step{Checks: []string{"json a..b == 1"}}),
		`take.v: an answer has no "xml"; use header NAME`:                                          step(Step{Takes: []Take{{"v", "xml"}}}),
		"take.n: a value cannot have that name; use letters":                                       step(Step{Takes: []Take{{"n", "body"}}}),
		"take.v: answers to HEAD have no body; use GET":                                            step(Step{Method: "HEAD", Takes: []Take{{"v", "body"}}}),
		"a message has no method, path, header or status; use request":                             with(func(p *Plan) { p.Web = false }),
		`a message has no status; check its body or a json field`:                                  with(func(p *Plan) { p.Web = false; p.Flows[0].Steps = []Step{{Checks: []string{"status == 200"}}} }),
		"request: it has a line feed, which ends a message here; write one line":                   with(func(p *Plan) { p.Web, p.OneLine = false, true; p.Flows[0].Steps = []Step{{Body: "a\nb"}} }),
		"think: it cannot be from 2s to 1s; write it as in 500ms or 1s..3s":                        step(Step{Think: 2 * time.Second, ThinkMost: time.Second}),
		"there are more than 256 steps; leave some out":                                            with(func(p *Plan) { p.Flows[0].Steps = make([]Step, 257) }),
		"data u: the flows f and g would each use its rows once; give each a file of its own": with(func(p *Plan) {
			p.Data[0].Order = Once
			p.Flows = []Flow{{Name: "f", Steps: []Step{{Path: "/{{u.id}}"}}}, {Name: "g", Steps: []Step{{Path: "/{{u.id}}"}}}}
		}),
		"data u: there are two of that name; give one another name":                          with(func(p *Plan) { p.Data = append(p.Data, p.Data[0]) }),
		`data cannot have the name "a.b"; use letters`:                                       with(func(p *Plan) { p.Data[0].Name = "a.b" }),
		`order: unknown order "any"; use in-order, random or once`:                           with(func(p *Plan) { p.Data[0].Order = "any" }),
		"data u: it has no file; name one":                                                   with(func(p *Plan) { p.Data[0].File = "" }),
		"it is empty; name the columns in its first line":                                    data("u.csv", ""),
		"has no rows; write one a line":                                                      data("u.csv", "a,b\n"),
		`its columns are ["a" "a"]; name each once in the first line`:                        data("u.csv", "a,a\n1,2\n"),
		"line 3: wrong number of fields; write as many values as the first line has columns": data("u.csv", "a,b\n1,2\n3\n"),
		"line 2 is no JSON object; write one a line":                                         data("u.jsonl", "{\"a\": 1}\n[1]\n"),
		`line 2 has no "a", which the first line has; write the same keys in all lines`:      data("u.jsonl", "{\"a\": 1}\n{\"b\": 1}\n"),
	} {
		if strings.HasPrefix(says, "check \"status == 99\"") {
			p, says = step(Step{Checks: []string{"status == 99"}}), "none of the status codes that count as success"
		}
		_, err := Compile(p)
		if err == nil {
			t.Errorf("%q was not said", says)
		} else if text := err.Error(); !strings.Contains(text, says) || !strings.Contains(text, "; ") {
			t.Errorf("%q, want %q in it", text, says)
		}
	}
}

func TestCookies(t *testing.T) {
	plan := one(t, Step{Method: "POST", Path: "/a/b", Body: "x"}, Step{Path: "/c"})
	plan.Cookies = true
	script := must[*Script](t)(Compile(plan))
	var s Session
	s.Start(script, 0, 0)
	say := func(head string) {
		if err := s.Answer(Answer{Status: 200, Head: []byte("HTTP/1.1 200 OK\r\n" + head + "\r\n")}); err != nil {
			t.Error(err)
		}
	}
	say("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n")
	say("set-cookie: a=3; Path=/x\r\nSet-Cookie: b=; Max-Age=0\r\n")
	if got := string(s.AppendCookies(nil)); got != "Cookie: a=3\r\n" {
		t.Errorf("the cookies are %q", got)
	}
	if s.Start(script, 0, 1); string(s.AppendCookies(nil)) != "" {
		t.Error("another session has the cookies")
	}
	for i := range 2 * mostCookies {
		say(fmt.Sprintf("Set-Cookie: c%d=1\r\n", i))
	}
	if n := strings.Count(string(s.AppendCookies(nil)), "="); n != mostCookies {
		t.Errorf("%d cookies are kept", n)
	}
}

// A cookie that has expired is deleted, whatever else its header says; Max-Age counts before Expires.
func TestCookiesExpire(t *testing.T) {
	plan := one(t, Step{})
	plan.Cookies = true
	script := must[*Script](t)(Compile(plan))
	for attributes, kept := range map[string]bool{
		"expires=Tue, 12-Oct-1999 10:00:00 GMT; Path=/": false, "Expires=Thu, 01 Jan 1970 00:00:00 GMT": false,
		"Expires=Fri, 01 Jan 2970 00:00:00 GMT": true, "Path=/; expires=Tue, 01-Jan-2970 10:00:00 GMT": true, "Path=/1970": true, "Expires=soon": true,
		"max-age=0": false, "Max-Age=-5": false, "Max-Age=60": true, "Max-Age=x": true,
		"Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT": true, "Expires=Fri, 01 Jan 2970 00:00:00 GMT; Max-Age=0": false,
	} {
		var s Session
		s.Start(script, 0, 0)
		for _, line := range []string{`a="b\"`, `a="\c"; ` + attributes} {
			if err := s.Answer(Answer{Status: 200, Head: []byte("HTTP/1.1 200 OK\r\nSet-Cookie: " + line + "\r\n\r\n")}); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(s.AppendCookies(nil)); (got != "") != kept || kept && got != "Cookie: a=\"\\c\"\r\n" {
			t.Errorf("%s: the cookies are %q", attributes, got)
		}
	}
}

// A million rows take the memory of their values and of four bytes for each.
func TestMillionRows(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("name,password\n")
	for i := range 1_000_000 {
		fmt.Fprintf(&text, "user-%07d,word-%07d\n", i, i)
	}
	plan := one(t, Step{Path: "/{{u.name}}/{{u.password}}"})
	plan.Data[0].File = file(t, "u.csv", text.String())
	script := must[*Script](t)(Compile(plan))
	var s Session
	for _, n := range []uint64{0, 1, 777_777, 999_999, 1_000_000} {
		s.Start(script, 0, n)
		if got, want := string(s.Request().Path.Append(nil, &s)), fmt.Sprintf("/user-%07d/word-%07[1]d", n%1_000_000); got != want {
			t.Errorf("session %d: %q", n, got)
		}
	}
	table := script.tables[0]
	if size := cap(table.bytes) + 4*cap(table.ends); size > 33<<20 {
		t.Errorf("they take %d bytes", size)
	}
}

// A field is found in an answer that is cut off behind it, and is not if its own end is missing.
func TestFieldsOfACutAnswer(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": {"b": [1, "x"]}, "c": [1,`: "x", `{"a": {"b": [1, "x"`: "x", `{"a": {"b": [1, "x`: "", `{"a": {"b": [1, "x\"`: "", `{"a": {"b": {"1": 5}}}`: "5", `{"a": {"b": [1]}}`: "",
	} {
		for _, text := range []string{"a.b[1]", "a.b.1"} {
			path := must[string](t)(parsePath(text))
			if got, ok := findField(nil, []byte(in), path); ok != (want != "") || string(got) != want {
				t.Errorf("%s of %s is %q (%v), want %q", text, in, got, ok, want)
			}
		}
	}
	for _, in := range []string{`{"a": {"b": [1, {"c": 2`, `{"a": {"b": [1, [2, 3`} {
		if got, ok := findField(nil, []byte(in), "a.b.1"); ok {
			t.Errorf("%s: %q", in, got)
		}
	}
	for _, pattern := range []string{"a.*", "a.#", "#", "@this", "a|b", "a.b.#(x=1)"} {
		if got, ok := findField(nil, []byte(`{"a": {"b": [1, 2]}}`), must[string](t)(parsePath(pattern))); ok {
			t.Errorf("%s is no name of a field, and is %q", pattern, got)
		}
	}
}

// Fields are found as package encoding/json finds them.
func FuzzJSONField(f *testing.F) {
	for _, text := range []string{`{"a": 1, "b": [true, {"c": "d\"e"}], "": null}`, `{}`, `[]`, `"x"`, ` {"a" : {"b":[[]]} } `, `{"\u0061": "\u00fc"}`, `{"a":1,"a":2}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		walked := map[string]gjson.Result{}
		whole := eachField(in, func(key, value gjson.Result) { walked[key.Str] = value })
		var fields map[string]json.RawMessage
		if !utf8.Valid(in) || !json.Valid(in) || json.Unmarshal(in, &fields) != nil || fields == nil {
			_, _ = findField(nil, in, "a.0") // which ends, whatever it is
			return
		}
		if whole != nil || len(walked) != len(fields) {
			t.Fatalf("%q has %d fields, %d were found (%v)", in, len(fields), len(walked), whole)
		}
		for key, want := range fields {
			if walked[key].Raw != string(want) {
				t.Errorf("%q of %q is %q, want %q", key, in, walked[key].Raw, want)
			}
			if path, err := parsePath(key); err == nil && !strings.ContainsAny(key, ".[]") {
				if _, ok := findField(nil, in, path); !ok {
					t.Errorf("%q of %q was not found", key, in)
				}
			}
		}
	})
}
