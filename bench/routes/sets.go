// Package routes compares hone's router with others on the sets of the usual
// routing benchmark, as that asks them and as clients do.
//
//	go run ./bench/cmd/peers run routes
package routes

import (
	_ "embed" // of the tables
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// A Route is one pattern in ServeMux's language, and its method.
type Route struct{ Method, Path string }

// A Set is a table of routes with a name.
type Set struct {
	Name   string
	Routes []Route
}

// Sets are the tables of the usual benchmark, and GitHub's in full.
func Sets() []Set {
	return []Set{
		{"Param1", read("/user/{name} GET")},
		{"Param5", read("/{a}/{b}/{c}/{d}/{e} GET")},
		{"Param20", read("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}/{q}/{r}/{s}/{t} GET")},
		{"GitHub", read(lines("github"))},
		{"GitHubAll", read(lines("github") + lines("githubRest"))},
		{"GPlus", read(lines("gplus"))},
		{"Parse", read(lines("parse"))},
		{"Static", read(lines("static"))},
	}
}

//go:embed sets.txt
var tables string

// lines returns the lines of a table, which a line with its name begins and an empty one ends.
func lines(name string) string {
	_, text, _ := strings.Cut(tables, "\n["+name+"] ")
	_, text, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, "\n\n")
	return text + "\n"
}

// read makes the routes of a table.
func read(table string) []Route {
	var routes []Route
	for line := range strings.Lines(strings.TrimSpace(table)) {
		path, methods, found := strings.Cut(strings.TrimSpace(line), " ")
		if path == "" {
			continue
		}
		if !found {
			methods = http.MethodGet
		}
		for method := range strings.FieldsSeq(methods) {
			routes = append(routes, Route{method, path})
		}
	}
	return routes
}

// colons is a path in the language of the others: /:x/*y.
func colons(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		name, wild := strings.CutPrefix(strings.TrimSuffix(part, "}"), "{")
		name, rest := strings.CutSuffix(name, "...")
		switch {
		case rest:
			parts[i] = "*" + name
		case wild:
			parts[i] = ":" + name
		}
	}
	return strings.Join(parts, "/")
}

// AsPublished are the requests of the usual benchmark: each pattern itself, in the
// order of the table.
func (s Set) AsPublished() []*http.Request {
	var all []*http.Request
	for _, r := range s.Routes {
		all = append(all, request(r.Method, colons(r.Path)))
	}
	return all
}

// AsClients are requests for every route in a random order that is always the
// same, with values such as clients have, each path in memory of its own.
func (s Set) AsClients() []*http.Request {
	random := rand.New(rand.NewPCG(1, uint64(len(s.Routes))))
	var all []*http.Request
	for _, r := range s.Routes {
		parts := strings.Split(r.Path, "/")
		for i, part := range parts {
			if strings.HasPrefix(part, "{") {
				parts[i] = clientValue(random, strings.HasSuffix(part, "...}"))
			}
		}
		all = append(all, request(r.Method, strings.Join(parts, "/")))
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// clientValue is a name, a number or a hash, or a path of them.
func clientValue(random *rand.Rand, rest bool) string {
	names := []string{"gordon", "golang", "go", "kubernetes", "julienschmidt", "octocat", "v1.2.3", "main"}
	switch k := random.IntN(8); {
	case rest:
		return "src/net/http/" + names[random.IntN(len(names))] + ".go"
	case k < 4:
		return names[random.IntN(len(names))]
	case k < 7:
		return fmt.Sprint(random.IntN(1_000_000))
	}
	return fmt.Sprintf("%040x", random.Uint64())
}

// Misses are requests for no route: each route with something behind it, or a
// letter changed.
func (s Set) Misses() []*http.Request {
	var all []*http.Request
	for i, r := range s.AsClients() {
		path := r.URL.Path + "/no/such/thing/at/all"
		if i%2 == 1 {
			path = "/nosuch" + r.URL.Path
		}
		all = append(all, request(r.Method, path))
	}
	return all
}

// WrongMethods are requests with a method that no route has.
func (s Set) WrongMethods() []*http.Request {
	var all []*http.Request
	for _, r := range s.AsClients() {
		all = append(all, request("OPTIONS", r.URL.Path))
	}
	return all
}

func request(method, path string) *http.Request {
	return &http.Request{
		Method: method, URL: &url.URL{Path: strings.Clone(path)}, RequestURI: strings.Clone(path), Host: "example.com",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
	}
}
