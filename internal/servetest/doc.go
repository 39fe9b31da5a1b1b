// Package servetest runs Go's own tests of net/http's server, net/http/serve_test.go, against
// package http1: evidence that does not come from hone's authors.
//
//	HONE_TEST_ALL=1 go test ./internal/servetest     run all tests; fail where http1 differs
//	go test ./internal/servetest -update             the same, and store the result
//	go test ./internal/servetest -v -only Hijack     run some, and print the result
//
// The repository contains none of Go's source. The test reads the installed Go, adds hooks to
// the methods of http.Server, and builds the test in a temporary GOROOT of links, in which
// hone's packages have import paths like those of the standard library.
package servetest
