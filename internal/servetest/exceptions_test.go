package servetest

// exception is a test that http1 does not pass.
type exception struct {
	why    string
	passes string // the column in which it does pass, or "any" if the result varies from run to run
}

// exceptions are all tests that http1 does not pass.
var exceptions = map[string]exception{
	"TestAutomaticHTTP2_Serve_H2TLSConfig":    {why: setsNextProto},
	"TestAutomaticHTTP2_Serve_NoTLSConfig":    {why: setsNextProto},
	"TestAutomaticHTTP2_Serve_WithTLSConfig":  {why: setsNextProto},
	"TestHandlerBodyClose":                    {why: "counts the unread bytes of a net.Conn while the handler runs; http1 reads bodies of up to 48 KiB into memory before it calls the handler"},
	"TestOnlyWriteTimeout":                    {why: "sets a deadline on the *net.TCPConn that its listener has returned; on Events the event loop owns the file descriptor by then"},
	"TestRequestBodyTimeoutClosesConnection":  {why: "expects a call of the handler although its body of 10,000 bytes never arrives; http1 waits for bodies of up to 48 KiB before the call, and closes the connection after ReadTimeout as net/http does"},
	"TestServerAllowsBlockingRemoteAddr":      {why: "makes net.Conn.RemoteAddr block; hone reads the address while it accepts, because of Limits.ConnsPerAddress"},
	"TestServerConnStateNew":                  {why: "expects StateNew before Serve returns, with a listener that ends after one connection; http1 reports StateNew when the engine starts to serve the connection", passes: "any"},
	"TestServerShutdown":                      {why: "looks for its connection inside the http.Server; http1 serves a copy of it. The rest of the test passes"},
	"TestServerShutdownStateNew":              {why: "expects Shutdown to wait 5 s for a connection that has never sent a byte (go.dev/issue/59037); http1 closes it at once"},
	"TestServerUnencryptedHTTP2HeaderTimeout": {why: "expects the connection to close after exactly ReadHeaderTimeout, in virtual time; hone's timeouts fire up to two timer sweeps late, and for a connection that has not sent a byte IdleTime applies"},
}

const setsNextProto = "checks that Serve has set TLSNextProto of its http.Server; http1 does not modify Server.Std"
