package servetest

// exceptions are the tests of Go's that http1 does not pass, and why.
var exceptions = map[string]string{}
