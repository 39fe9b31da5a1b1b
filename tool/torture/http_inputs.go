package torture

import (
	"strconv"
	"strings"
)

// httpInput is a malformed, ambiguous or unusual request for HTTP/1.1. Behind it stands a good
// request that asks for the end of the connection, so that every answer is known to be complete.
type httpInput struct {
	name    string
	section string // with the number of its RFC
	text    string // see render
	rights
}

// rights are what a server may do with an input. Answers count the good request's too.
type rights struct {
	refuse  bool // it may answer with an error and close, or close at once
	serve   int  // it may give that many answers
	lenient int  // it should not, but nobody is harmed by that many answers
	fewer   bool // fewer than lenient, but more than serve, are those of a server that believed the length
	moves   bool // more answers than serve are wrong: others find another end of the message
	waits   bool // it may wait for more bytes
	raw     bool // it may answer with something other than HTTP/1.1
}

// Common rights. Three answers are wrong, except where a fault is that the connection stays open:
// then bytes were taken for a request that belong to a body, a field or a line.
var (
	mustRefuse = rights{refuse: true, lenient: 2}
	mustServe  = rights{serve: 2}
	mayServe   = rights{refuse: true, serve: 2}
	// mustClose is for framing that does not say for certain where the next request begins. A
	// handler that reads no body may answer before its fault shows.
	mustClose = rights{refuse: true, serve: 1, lenient: 2}
	// refuseLength and closeChunks are the same for what makes a message's end uncertain.
	refuseLength = rights{refuse: true, lenient: 2, moves: true}
	closeChunks  = rights{refuse: true, serve: 1, lenient: 2, moves: true}
	// codingWins is for a length beside a coding, which overrides it. Many servers, net/http among
	// them, go on with the request behind the chunks instead of closing.
	codingWins = rights{refuse: true, serve: 1, lenient: 3, fewer: true, moves: true}
)

// lineText returns an input's text whose request line is given.
func lineText(line string) string { return line + "\r\nHost: {host}\r\n\r\n{next}" }

// fieldText returns the text of a GET with lines below its Host.
func fieldText(lines string) string {
	return lineText("GET {path} HTTP/1.1\r\n" + lines)
}

// bareText returns the text of a GET with only these lines.
func bareText(lines string) string { return "GET {path} HTTP/1.1\r\n" + lines + "\r\n\r\n{next}" }

// bodyText returns the text of a POST with lines and a body.
func bodyText(lines, content string) string {
	return "POST {path} HTTP/1.1\r\nHost: {host}\r\n" + lines + "\r\n\r\n{body}" + content + "{end}{next}"
}

// lengthText returns the text of a POST whose body is a request, with lines that give its length. A
// server that finds another length takes the body for a request.
func lengthText(lines string) string { return bodyText(lines, "{hidden}") }

// codingText returns the text of a POST whose Content-Length covers an empty chunked body and a
// request behind it, with lines about its coding. A server that decodes chunks answers the request.
func codingText(lines string) string {
	return bodyText("Content-Length: {n}\r\n"+lines, "0\r\n\r\n{hidden}")
}

// chunkText returns the text of a POST with a chunked body.
func chunkText(content string) string { return bodyText("Transfer-Encoding: chunked", content) }

// render returns the bytes of an input, in the parts in which they are sent. In the text, {host}
// and {path} stand for the target, {hidden} for a request whose path is the mark, {next} for the
// good request, {n} and {hex} for the length between {body} and {end}, {big} for 70,000 letters,
// {many} for 3,000 fields, and {cut} divides the parts.
func (in *httpInput) render(host, path, mark string) [][]byte {
	text := strings.NewReplacer(
		"{hidden}", "GET "+mark+" HTTP/1.1\r\nHost: {host}\r\n\r\n",
		"{next}", "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
		"{big}", strings.Repeat("a", 70_000),
		"{many}", "X-A: b"+strings.Repeat("\r\nX-A: b", 2999),
	).Replace(in.text)
	text = strings.NewReplacer("{host}", host, "{path}", path).Replace(text)
	if _, content, found := strings.Cut(text, "{body}"); found {
		content, _, _ = strings.Cut(content, "{end}")
		n := len(strings.ReplaceAll(content, "{cut}", ""))
		text = strings.NewReplacer("{body}", "", "{end}", "", "{n}", strconv.Itoa(n), "{hex}", strconv.FormatInt(int64(n), 16)).Replace(text)
	}
	var parts [][]byte
	for part := range strings.SplitSeq(text, "{cut}") {
		parts = append(parts, []byte(part))
	}
	return parts
}

// The lists are our own, derived from the two RFCs.

var lineInputs = []httpInput{
	{"no version, as in HTTP/0.9", "9112 §2.3", "GET {path}\r\n\r\n{next}", rights{refuse: true, lenient: 2, raw: true}},
	{"no method", "9112 §3.1", lineText(" {path} HTTP/1.1"), mustRefuse},
	{"a method with a control byte", "9112 §3.1", lineText("G\x01T {path} HTTP/1.1"), mustRefuse},
	{"a method with a slash", "9112 §3.1", lineText("HTTP/1.1 {path} HTTP/1.1"), mustRefuse},
	{"a method in lower case", "9110 §9.1", lineText("get {path} HTTP/1.1"), mayServe},
	{"a method of 70,000 letters", "9112 §3", lineText("{big} {path} HTTP/1.1"), mayServe},
	{"two spaces before the target", "9112 §3", lineText("GET  {path} HTTP/1.1"), mayServe},
	{"a tab before the target", "9112 §3", lineText("GET\t{path} HTTP/1.1"), mayServe},
	{"a space in the target", "9112 §3.2", lineText("GET {path} x HTTP/1.1"), mustRefuse},
	{"a space behind the version", "9112 §3", lineText("GET {path} HTTP/1.1 "), mayServe},
	{"a space before the line", "9112 §3", lineText(" GET {path} HTTP/1.1"), mustRefuse},
	{"an empty line before the line", "9112 §2.2", "\r\n" + lineText("GET {path} HTTP/1.1"), mayServe},
	{"the version HTTP/1.2", "9112 §2.3", lineText("GET {path} HTTP/1.2"), mayServe},
	{"the version HTTP/2.0", "9112 §2.3", lineText("GET {path} HTTP/2.0"), mustRefuse},
	{"the version HTTP/9.9", "9112 §2.3", lineText("GET {path} HTTP/9.9"), mustRefuse},
	{"the version http/1.1", "9112 §2.3", lineText("GET {path} http/1.1"), mustRefuse},
	{"the version HTTP/1.10", "9112 §2.3", lineText("GET {path} HTTP/1.10"), mustRefuse},
	{"the version HTTP/01.1", "9112 §2.3", lineText("GET {path} HTTP/01.1"), mustRefuse},
	{"the version HTTP/ 1.1", "9112 §2.3", lineText("GET {path} HTTP/ 1.1"), mustRefuse},
	{"a NUL in the target", "9112 §3.2", lineText("GET {path}\x00 HTTP/1.1"), mustRefuse},
	{"a control byte in the target", "9112 §3.2", lineText("GET {path}\x07 HTTP/1.1"), mustRefuse},
	{"a byte above 127 in the target", "9112 §3.2", lineText("GET {path}\xff HTTP/1.1"), mustRefuse},
	{"a fragment in the target", "9112 §3.2", lineText("GET {path}#b HTTP/1.1"), mustRefuse},
	{"half an escape in the target", "9112 §3.2", lineText("GET {path}%z HTTP/1.1"), mustRefuse},
	{"a target without a slash", "9112 §3.2", lineText("GET index HTTP/1.1"), mustRefuse},
	{"a target of 70,000 letters", "9112 §3", lineText("GET /{big} HTTP/1.1"), mayServe},
	{"the target * of a GET", "9112 §3.2.4", lineText("GET * HTTP/1.1"), mustRefuse},
	{"an absolute target", "9112 §3.2.2", lineText("GET http://{host}{path} HTTP/1.1"), mustServe},
	{"an absolute target on another host", "9112 §3.2.2", lineText("GET http://other.invalid{path} HTTP/1.1"), mayServe},
	{"CONNECT with a path", "9112 §3.2.3", lineText("CONNECT {path} HTTP/1.1"), mustRefuse},
	{"CR CR LF behind the line", "9112 §2.2", lineText("GET {path} HTTP/1.1\r"), mustRefuse},
	{"lines that end in LF alone", "9112 §2.2", "GET {path} HTTP/1.1\nHost: {host}\n\n{next}", mayServe},
	{"lines that end in CR alone", "9112 §2.2", "GET {path} HTTP/1.1\rHost: {host}\r\r{next}", rights{refuse: true, lenient: 2, waits: true}},
	{"HTTP/2's preface", "9110 §2.5", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{next}", rights{refuse: true, lenient: 3, waits: true, raw: true}},
	{"a TLS handshake in plain text", "9112 §2.2", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n{next}", rights{refuse: true, lenient: 2, waits: true, raw: true}},
	{"zeros", "9112 §2.2", strings.Repeat("\x00", 64) + "\r\n\r\n{next}", mustRefuse},
	{"a response as a request", "9112 §2.1", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n{next}", mustRefuse},
}

var fieldInputs = []httpInput{
	{"a space before the colon", "9112 §5.1", fieldText("X-A : b"), mustRefuse},
	{"a tab before the colon", "9112 §5.1", fieldText("X-A\t: b"), mustRefuse},
	{"a folded value", "9112 §5.2", fieldText("X-A: b\r\n c"), mayServe},
	{"a first line that begins with a space", "9112 §2.2", bareText(" X-A: b\r\nHost: {host}"), mayServe},
	{"no name", "9112 §5", fieldText(": b"), mustRefuse},
	{"no colon", "9112 §5", fieldText("X-A"), mustRefuse},
	{"a name with brackets", "9110 §5.1", fieldText("X[A]: b"), mustRefuse},
	{"a name with a NUL", "9110 §5.1", fieldText("X\x00A: b"), mustRefuse},
	{"a name with a byte above 127", "9110 §5.1", fieldText("X\xe4A: b"), mustRefuse},
	{"a name of 70,000 letters", "9110 §5.4", fieldText("{big}: b"), mayServe},
	{"a value of 70,000 letters", "9110 §5.4", fieldText("X-A: {big}"), mayServe},
	{"3,000 fields", "9110 §5.4", fieldText("{many}"), mayServe},
	{"a NUL in a value", "9110 §5.5", fieldText("X-A: b\x00c"), mayServe},
	{"a control byte in a value", "9110 §5.5", fieldText("X-A: b\x01c"), mayServe},
	{"a CR in a value, and a coding behind it", "9110 §5.5", codingText("X-A: b\rTransfer-Encoding: chunked"), mayServe},
	{"a LF in a value, and a coding behind it", "9112 §2.2", codingText("X-A: b\nTransfer-Encoding: chunked"), rights{refuse: true, serve: 2, lenient: 3, moves: true}},
}

var hostInputs = []httpInput{
	{"no Host", "9112 §3.2", bareText("X-A: b"), mustRefuse},
	{"two equal Hosts", "9112 §3.2", fieldText("Host: {host}"), mustRefuse},
	{"two Hosts", "9112 §3.2", fieldText("Host: other.invalid"), mustRefuse},
	{"a Host with a space", "9112 §3.2", bareText("Host: a b"), mustRefuse},
	{"a Host with a path", "9112 §3.2", bareText("Host: {host}/x"), mustRefuse},
	{"a Host with a user", "9112 §3.2", bareText("Host: a@{host}"), mustRefuse},
	{"a Host with a port in letters", "9112 §3.2", bareText("Host: a:port"), mustRefuse},
	{"two Hosts in one", "9112 §3.2", bareText("Host: a, b"), mustRefuse},
	{"an empty Host", "9110 §7.2", bareText("Host:"), mayServe},
}

var lengthInputs = []httpInput{
	{"the lengths 0 and n", "9112 §6.3", lengthText("Content-Length: 0\r\nContent-Length: {n}"), refuseLength},
	{"the lengths n and 0", "9112 §6.3", lengthText("Content-Length: {n}\r\nContent-Length: 0"), refuseLength},
	{"the same length twice", "9112 §6.3", lengthText("Content-Length: {n}\r\nContent-Length: {n}"), mayServe},
	{"the same length twice in one field", "9112 §6.3", lengthText("Content-Length: {n}, {n}"), mayServe},
	{"two lengths in one field", "9112 §6.3", lengthText("Content-Length: 0, {n}"), refuseLength},
	{"a length with a plus", "9110 §8.6", lengthText("Content-Length: +{n}"), refuseLength},
	{"a length with a minus", "9110 §8.6", lengthText("Content-Length: -{n}"), refuseLength},
	{"a length in hexadecimal", "9110 §8.6", lengthText("Content-Length: 0x{hex}"), refuseLength},
	{"a length with a point", "9110 §8.6", lengthText("Content-Length: {n}.0"), refuseLength},
	{"a length with an exponent", "9110 §8.6", lengthText("Content-Length: 0e{n}"), refuseLength},
	{"a length with an underscore", "9110 §8.6", lengthText("Content-Length: 0_{n}"), refuseLength},
	{"a length with a space inside", "9110 §8.6", lengthText("Content-Length: 0 {n}"), refuseLength},
	{"a length behind a vertical tab", "9110 §8.6", lengthText("Content-Length: \x0b{n}"), refuseLength},
	{"an empty length", "9110 §8.6", lengthText("Content-Length:"), refuseLength},
	{"a length with leading zeros", "9110 §8.6", lengthText("Content-Length: 000{n}"), mayServe},
	{"a length of 2^64", "9110 §8.6", lengthText("Content-Length: 18446744073709551616"), rights{refuse: true, lenient: 1, waits: true}},
	{"a length of 2^63 - 1", "9110 §8.6", lengthText("Content-Length: 9223372036854775807"), rights{refuse: true, serve: 1, waits: true}},
	{"a length whose name has a space", "9112 §5.1", lengthText("Content-Length : {n}"), refuseLength},
	{"a length of another name", "9110 §8.6", lengthText("Content_Length: 0\r\nContent-Length: {n}"), mayServe},
	{"a GET with a body", "9110 §9.3.1", strings.Replace(lengthText("Content-Length: {n}"), "POST", "GET", 1), mayServe},
	{"an OPTIONS with a body", "9110 §9.3.7", strings.Replace(lengthText("Content-Length: {n}"), "POST", "OPTIONS", 1), mayServe},
	{"a DELETE with a body", "9110 §9.3.5", strings.Replace(lengthText("Content-Length: {n}"), "POST", "DELETE", 1), mayServe},
	{"a body in two parts", "9112 §6.2", bodyText("Content-Length: {n}", "GET {cut}{hidden}"), mustServe},
	{"a length as a hop's own", "9110 §7.6.1", lengthText("Connection: Content-Length\r\nContent-Length: {n}"), mayServe},
}

var codingInputs = []httpInput{
	{"a length, then chunked", "9112 §6.1", codingText("Transfer-Encoding: chunked"), codingWins},
	{"chunked, then a length", "9112 §6.1", bodyText("Transfer-Encoding: chunked\r\nContent-Length: {n}", "0\r\n\r\n{hidden}"), codingWins},
	{"a length that ends in a chunk", "9112 §6.1", bodyText("Content-Length: 4\r\nTransfer-Encoding: chunked", "1\r\nx{cut}{hidden}{hidden}"), closeChunks},
	{"chunked in HTTP/1.0", "9112 §6.1", strings.Replace(chunkText("0\r\n\r\n"), "HTTP/1.1", "HTTP/1.0", 1), closeChunks},
	{"chunked, then gzip", "9112 §6.1", codingText("Transfer-Encoding: chunked, gzip"), refuseLength},
	{"gzip, then chunked", "9112 §6.1", bodyText("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), mayServe},
	{"gzip", "9112 §6.1", codingText("Transfer-Encoding: gzip"), refuseLength},
	{"chunked twice in one field", "9112 §6.1", codingText("Transfer-Encoding: chunked, chunked"), refuseLength},
	{"chunked in two fields", "9112 §6.1", codingText("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), refuseLength},
	{"chunked and identity", "9112 §6.1", codingText("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"), refuseLength},
	{"identity", "9112 §6.1", codingText("Transfer-Encoding: identity"), refuseLength},
	{"xchunked", "9112 §6.1", codingText("Transfer-Encoding: xchunked"), refuseLength},
	{"chunked with a parameter", "9112 §6.1", codingText("Transfer-Encoding: chunked;q=1"), refuseLength},
	{"chunked in quotes", "9112 §6.1", codingText("Transfer-Encoding: \"chunked\""), refuseLength},
	{"chunked behind a vertical tab", "9112 §6.1", codingText("Transfer-Encoding: \x0bchunked"), refuseLength},
	{"chunked and a NUL", "9112 §6.1", codingText("Transfer-Encoding: chunked\x00"), refuseLength},
	{"chunked behind a comma", "9110 §5.6.1", codingText("Transfer-Encoding: , chunked"), codingWins},
	{"chunked in capitals", "9112 §7", bodyText("Transfer-Encoding: CHUNKED", "0\r\n\r\n"), mustServe},
	{"an empty coding", "9112 §6.1", codingText("Transfer-Encoding:"), refuseLength},
	{"a coding whose name has a space", "9112 §5.1", codingText("Transfer-Encoding : chunked"), refuseLength},
	{"a coding on a folded line", "9112 §5.2", codingText("Transfer-Encoding:\r\n chunked"), codingWins},
	{"a coding of another name", "9112 §6.1", codingText("Transfer_Encoding: chunked"), mayServe},
	{"a coding behind a bracket", "9110 §5.1", codingText("[Transfer-Encoding: chunked"), mustRefuse},
}

var chunkInputs = []httpInput{
	{"a size in hexadecimal with 0x", "9112 §7.1", chunkText("0x1\r\nx\r\n0\r\n\r\n"), closeChunks},
	{"a size with a plus", "9112 §7.1", chunkText("+1\r\nx\r\n0\r\n\r\n"), closeChunks},
	{"a size with a minus", "9112 §7.1", chunkText("-1\r\nx\r\n0\r\n\r\n"), closeChunks},
	{"a size with an underscore", "9112 §7.1", chunkText("0_1\r\nx\r\n0\r\n\r\n"), closeChunks},
	{"no size", "9112 §7.1", chunkText("\r\nx\r\n0\r\n\r\n"), closeChunks},
	{"a size of 2^64", "9112 §7.1", chunkText("10000000000000000\r\n\r\n{hidden}"), closeChunks},
	{"a size of 2^64 + 1", "9112 §7.1", chunkText("10000000000000001\r\nx\r\n0\r\n\r\n"), closeChunks},
	{"a size with a leading zero", "9112 §7.1", chunkText("01\r\nx\r\n0\r\n\r\n"), mayServe},
	{"a size and a space", "9112 §7.1", chunkText("1 \r\nx\r\n0\r\n\r\n"), mustClose},
	{"a size that ends in LF alone", "9112 §7.1", chunkText("1\nx\r\n0\r\n\r\n"), closeChunks},
	{"an extension", "9112 §7.1.1", chunkText("1;a=b\r\nx\r\n0\r\n\r\n"), mustServe},
	{"an extension with a LF", "9112 §7.1.1", chunkText("0;a\n\r\n{hidden}"), rights{refuse: true, serve: 1, lenient: 3, moves: true}},
	{"an extension with a CR", "9112 §7.1.1", chunkText("0;a\r\x00\r\n\r\n{hidden}"), rights{refuse: true, serve: 1, lenient: 3}},
	{"a line end in quotes in an extension", "9112 §7.1.1", chunkText("0;a=\"\r\n\r\n{hidden}\"\r\n\r\n"), rights{refuse: true, serve: 1, lenient: 3}},
	{"no line end behind a chunk", "9112 §7.1", chunkText("1\r\nx0\r\n\r\n"), closeChunks},
	{"a chunk longer than its size", "9112 §7.1", chunkText("1\r\nxy\r\n0\r\n\r\n"), closeChunks},
	{"a trailer", "9112 §7.1.2", chunkText("1\r\nx\r\n0\r\nX-A: b\r\n\r\n"), mustServe},
	{"a length in a trailer", "9110 §6.5.1", chunkText("0\r\nContent-Length: 5\r\n\r\n"), mayServe},
	{"a trailer without a colon", "9112 §7.1.2", chunkText("0\r\n{hidden}"), mustClose},
	{"a chunk in four parts", "9112 §7.1", chunkText("1{cut}\r{cut}\nx\r{cut}\n0\r\n\r\n"), mustServe},
}

var lifeInputs = []httpInput{
	{"a request behind Connection: close", "9112 §9.6", fieldText("Connection: close"), rights{serve: 1}},
	{"a request behind one of HTTP/1.0", "9112 §9.3", "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n{next}", rights{refuse: true, serve: 1}},
	{"a request behind one of HTTP/1.0 without Host", "9112 §9.3", "GET {path} HTTP/1.0\r\n\r\n{next}", rights{refuse: true, serve: 1}},
	{"Expect: 100-continue and the body at once", "9110 §10.1.1", lengthText("Expect: 100-continue\r\nContent-Length: {n}"), mayServe},
	{"an unknown expectation", "9110 §10.1.1", fieldText("Expect: nothing"), mayServe},
	{"an unknown upgrade", "9110 §7.8", fieldText("Connection: Upgrade\r\nUpgrade: nothing"), mayServe},
	{"an upgrade to HTTP/2 with broken settings", "9110 §7.8", fieldText("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: ?"), mayServe},
	{"a request and half of the next one", "9112 §9.3.2", lineText("GET {path} HTTP/1.1") + "GET", rights{serve: 2}},
}
