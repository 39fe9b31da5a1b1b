// Package httpdiff compares package http1 with net/http: it draws streams, sends each to both,
// and requires the same result.
//
//	go test ./internal/httpdiff                                       a few seconds, from a new seed
//	go test ./internal/httpdiff -streams 200000                       that many streams; make suites
//	go test ./internal/httpdiff -v -run TestStreams -stream 7/1234    one stream again
//
// A stream is everything that a client does on one connection: requests that are ordinary, odd or
// hostile, how they are cut into writes, whether the client waits for each answer, when it begins
// to read, and whether it half-closes. The path of a request chooses one of about 160 handlers.
// A few streams pause for longer than a timeout, or while the server shuts down. The results are the
// responses without their dates, how the connection ended, and which handlers ran, with every
// detail of the request that they saw.
//
// If the results differ, and the difference is not one of the documented ones, both servers get the
// stream again, several times: what varies on both sides is chance, such as how much arrives before
// a reset. A difference that remains is a failure. It is shrunk and printed as a Go literal that
// can be added to the table of known streams.
package httpdiff
