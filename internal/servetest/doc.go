// Package servetest runs Go's own tests of net/http's server, net/http/serve_test.go,
// against package http1: as evidence that was not written here.
//
//	HONE_TEST_ALL=1 go test ./internal/servetest            compare with the stored result
//	go test ./internal/servetest -update                    run, and store the result
//	go test ./internal/servetest -update -only Hijack      run some, and print a table
//
// Nothing of Go's source is kept here. The test reads the installed Go, adds hooks to the
// methods of http.Server and lays them, with the packages of hone under import paths like
// those of the standard library, over GOROOT (go build -overlay).
package servetest
