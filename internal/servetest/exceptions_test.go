package servetest

// exception is a test that http1 does not pass.
type exception struct {
	why    string
	passes string // the engine on which it does pass, or "any" where that is a matter of luck
}

// exceptions are all of them.
var exceptions = map[string]exception{
	"TestAutomaticHTTP2_Serve_H2TLSConfig":    {why: setsNextProto},
	"TestAutomaticHTTP2_Serve_NoTLSConfig":    {why: setsNextProto},
	"TestAutomaticHTTP2_Serve_WithTLSConfig":  {why: setsNextProto},
	"TestHandlerBodyClose":                    {why: "counts what is unread in a net.Conn while the handler runs; http1 has a body of up to 48 KiB in memory before it calls the handler"},
	"TestOnlyWriteTimeout":                    {why: "sets a deadline on the *net.TCPConn that its listener has handed out; on Events the loop owns the descriptor then", passes: "parked"},
	"TestRequestBodyTimeoutClosesConnection":  {why: "wants the handler to be called for a body of 10,000 bytes that never arrives; http1 waits for bodies of up to 48 KiB, and closes the connection after ReadTimeout as net/http does"},
	"TestServerAllowsBlockingRemoteAddr":      {why: "has net.Conn.RemoteAddr block; hone asks for the address while it accepts, because of Limits.ConnsPerAddress"},
	"TestServerConnStateNew":                  {why: "wants StateNew before Serve returns for a listener that ends after one connection; http1 tells of it when the engine begins with the connection", passes: "any"},
	"TestServerShutdown":                      {why: "looks for its connection inside the http.Server; http1 serves a copy. The rest of it passes"},
	"TestServerShutdownStateNew":              {why: "wants Shutdown to wait 5 s for a connection that has never sent a byte (go.dev/issue/59037); http1 closes it at once"},
	"TestServerUnencryptedHTTP2HeaderTimeout": {why: "wants a connection closed after exactly ReadHeaderTimeout, of virtual time; hone's limits strike up to two sweeps late, and a connection that has not sent a byte has IdleTime"},
}

const setsNextProto = "looks whether Serve has set TLSNextProto of its http.Server; http1 leaves Server.Std as it is"
