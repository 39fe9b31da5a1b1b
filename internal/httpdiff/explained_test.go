package httpdiff

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// explained is a difference that is not a failure. The smaller these tables are, the better.
type explained struct {
	name    string
	where   string // a sentence of docs/http1.md, docs/limits.md or internal/servetest/results.md
	witness stream // shows it
	is      func(d *difference) bool
}

// documented are the differences that the documentation describes.
var documented = []explained{
	{
		name:    "a body that never becomes complete",
		where:   "**Bodies of up to 48 KiB are in memory** when the handler starts.",
		witness: stream{Requests: []request{post("/unread", 5, "x")}, Half: true},
		is: func(d *difference) bool {
			n := len(d.bytes())
			for _, p := range d.Pauses {
				if d.ReadTimeout > 0 && p.For >= d.ReadTimeout {
					n = min(n, p.At)
				}
			}
			return held(d.bytes()[:n]) && len(d.want.Ran) == len(d.have.Ran)+1 && begins(d.want.Ran, d.have.Ran) && begins(d.want.Answers, d.have.Answers)
		},
	},
	{
		name:    "an answer that net/http gives before a Shutdown, since its handler does not wait for the body",
		where:   "**Bodies of up to 48 KiB are in memory** when the handler starts.",
		witness: stream{Requests: []request{post("/copy-3000", 10, fill(10))}, Half: true, Pauses: []pause{{At: 62, For: beat, Shutdown: true}}},
		is: func(d *difference) bool {
			open := strings.ReplaceAll(d.have.texts(), "Connection: close\n", "")
			return d.stops() && d.pausesIn(held) && slices.Equal(d.want.Ran, d.have.Ran) && open == strings.ReplaceAll(d.want.texts(), "Connection: close\n", "")
		},
	},
	{
		name:    "a client that pauses for ReadHeaderTimeout before a head or in its first 3 bytes",
		where:   "| `ReadHeaderTimeout` | `FrameTime` | 5 s | a head, from its first byte to its last",
		witness: stream{Requests: []request{get("/")}, Half: true, Pauses: []pause{{At: 0, For: 2 * beat}}, ReadHeaderTimeout: beat, ReadTimeout: 4 * beat},
		is: func(d *difference) bool {
			return d.ReadHeaderTimeout > 0 && slices.ContainsFunc(d.Pauses, func(p pause) bool {
				return p.At == 0 || slices.ContainsFunc(d.ends(), func(end int) bool { return end < p.At && p.At < end+4 })
			})
		},
	},
	{
		name:    "a first head that is not complete at Shutdown",
		where:   "expects Shutdown to wait 5 s for a connection that has never sent a byte (go.dev/issue/59037); http1 closes it at once",
		witness: stream{Requests: []request{{Line: "GET / HT"}}, Pauses: []pause{{At: 8, For: beat, Shutdown: true}}},
		is: func(d *difference) bool {
			return d.stops() && len(d.want.Ran)+len(d.have.Ran) == 0 && d.want.texts() == d.have.texts() && strings.HasPrefix(d.want.End, open)
		},
	},
	{
		name:    "a panic",
		where:   "nothing is sent of an answer that was not flushed, where net/http sends what has passed its 4 KiB buffer. After a flush, a panic leaves the answer without an end",
		witness: stream{Requests: []request{get("/panic-flush")}, Half: true},
		is: func(d *difference) bool {
			return slices.Equal(d.want.Ran, d.have.Ran) && begins(d.want.Answers, d.have.Answers) && d.lacksOnlyOfPanics()
		},
	},
	{
		name:  "a length beside chunks",
		where: "**A `Content-Length` beside chunks** ends the connection with the answer",
		witness: stream{Requests: []request{{"POST /echo HTTP/1.1\r\n", []string{"Host: a\r\n", "Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n"}, "\r\n", "1\r\nx\r\n0\r\n\r\n"}},
			Half: true},
		is: func(d *difference) bool {
			both := slices.ContainsFunc(d.Requests, func(r request) bool {
				fields := strings.ToLower(strings.Join(r.Fields, ""))
				return strings.Contains(fields, "content-length") && strings.Contains(fields, "chunked")
			})
			// Before the first byte of an answer net/http closes the body, if the connection goes on.
			ran := strings.Split(strings.ReplaceAll(strings.Join(d.want.Ran, between), http.ErrBodyReadAfterClose.Error(), "<nil>"), between)
			untilAnswer := func(ran []string) (all []string) {
				for _, text := range ran {
					before, _, _ := strings.Cut(text, "; flush: ")
					before, _, _ = strings.Cut(before, "; wrote ")
					all = append(all, before)
				}
				return all
			}
			return both && (begins(d.want.Ran, d.have.Ran) || begins(ran, d.have.Ran) || begins(untilAnswer(d.want.Ran), untilAnswer(d.have.Ran))) &&
				(begins(d.want.open(), d.have.open()) ||
					// A request that http1 has not read may end in a reset, which takes from the client what it has not read.
					strings.HasSuffix(d.want.End, reset) && len(d.want.Ran) > len(d.have.Ran) && begins(d.have.open(), d.want.open()))
		},
	},
	{
		name:    "http.MaxBytesHandler and a body one byte over its limit",
		where:   "limit by more than a byte.",
		witness: stream{Requests: []request{post("/handler-200", 11, fill(11))}, Half: true},
		is: func(d *difference) bool {
			return d.keepsOpen() && slices.ContainsFunc(d.want.Ran, func(r string) bool { return strings.Contains(r, "/handler-200") })
		},
	},
	{
		name:    string(resetByNetHTTP),
		where:   "what a refused peer still sends is read, so that it sees the refusal",
		witness: stream{Requests: []request{{Line: "GET / HTTP/1.1\r\n", Empty: "\r\n", Body: fill(5000)}}, Half: true},
		is: func(d *difference) bool {
			return strings.HasSuffix(d.want.End, reset) && slices.Equal(d.want.Ran, d.have.Ran) && begins(d.have.Answers, d.want.Answers)
		},
	},
	{
		name:    "a head that is longer than MaxHeaderBytes, but not than what net/http happens to read",
		where:   "| a head; net/http reads 4 KiB more |",
		witness: stream{Requests: []request{get("/"), {Line: "GET / HTTP/1.1\r\n", Fields: []string{"Host: a\r\n", "X: " + fill(maxHead+moreHead+2000) + "\r\n"}, Empty: "\r\n"}}, Half: true},
		is: func(d *difference) bool {
			n := len(d.have.Answers) - 1
			return n >= 0 && strings.HasPrefix(d.have.Answers[n], "HTTP/1.1 431") && begins(d.want.Answers, d.have.Answers[:n]) &&
				slices.ContainsFunc(d.Requests, func(q request) bool {
					return len(q.bytes()) > maxHead+moreHead && len(q.bytes())-len(q.Body) <= maxHead+2*moreHead
				})
		},
	},
	{
		name:    "a reset because of bytes that net/http would have read together with others",
		where:   "**A refused connection on loan** may end with a reset",
		witness: stream{Requests: []request{get("/write-300000"), {Line: "\n", Body: fill(500)}}, Half: true},
		is: func(d *difference) bool {
			// When both are reset, it is chance how much of the last answer the client had read by then.
			return d.have.End == reset && (d.want.End == closed || d.want.End == reset) && slices.Equal(d.want.Ran, d.have.Ran) && begins(d.want.Answers, d.have.Answers)
		},
	},
}

// resetByNetHTTP is no difference of http1's own, and happens by chance.
const resetByNetHTTP verdict = "a reset by net/http because of bytes that it has not read"

// untilRepaired are defects of http1 that are known and not repaired yet. Once one is repaired,
// TestWitnesses fails: then delete the entry, and add its witness to known.
var untilRepaired []explained

// known are streams that differed once.
var known = []stream{
	{Requests: []request{post("/echo", 10, fill(10))}, Half: true, Pauses: []pause{{At: 57, For: beat, Shutdown: true}}},
	{Requests: []request{post("/echo", 10, fill(10))}, Half: true, Pauses: []pause{{At: 57, For: 2 * beat}}, ReadHeaderTimeout: beat, ReadTimeout: 4 * beat},
	{Requests: []request{{Line: "GET / HT"}}, Half: true},
	{Requests: []request{{Line: "GET / HT"}}, ReadHeaderTimeout: beat, ReadTimeout: 4 * beat},
	{Requests: []request{post("/handler-200", 20, fill(20))}, Half: true},
	{Requests: []request{post("/echo", 50_000, fill(50_000))}, Half: true, Pauses: []pause{{At: 500, For: 2 * beat}}, ReadHeaderTimeout: beat},
	{Requests: []request{get("/")}, Half: true, Pauses: []pause{{At: 8, For: beat, Shutdown: true}}},
	// a complete request and half a head, which ended the process once
	{Requests: []request{get("/"), {Line: "GET / HT"}, closing}, Half: true, Pauses: []pause{{At: 35, For: beat / 2}}, ReadHeaderTimeout: beat, ReadTimeout: 4 * beat},
	{Requests: []request{get("/write-300000"), get("/write-300000"), get("/abort-flush"), get("/")}, Half: true, Late: 50 * time.Millisecond},
	{Requests: []request{get("/"), post("/echo", 50_000, fill(50_000))}, Half: true, Pauses: []pause{{At: 500, For: beat, Shutdown: true}}},
	{Requests: []request{get("/write-300000"), get("/hijack"), get("/write-300000"), get("/304"), get("/999-body"), get("/copy-512"), get("/handler-enough"), get("/panic-long")}, Half: true, Cuts: []int{183, 184, 185, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196}, Pace: time.Millisecond},
}

func get(path string) request {
	return request{"GET " + path + " HTTP/1.1\r\n", []string{"Host: a\r\n"}, "\r\n", ""}
}

func post(path string, length int, sent string) request {
	return request{"POST " + path + " HTTP/1.1\r\n", []string{"Host: a\r\n", fmt.Sprintf("Content-Length: %d\r\n", length)}, "\r\n", sent}
}

// unfinished returns the request within whose body text ends, or nil.
func unfinished(text string) *http.Request {
	for in := bufio.NewReader(strings.NewReader(text)); ; {
		for b, _ := in.Peek(1); len(b) > 0 && (b[0] == '\r' || b[0] == '\n'); b, _ = in.Peek(1) {
			in.Discard(1) // as net/http does after a POST
		}
		r, err := http.ReadRequest(in)
		if err != nil {
			return nil
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return r
		}
	}
}

// held and lent report whether text ends within a body that http1 holds in memory, or that it lends.
func held(text string) bool {
	r := unfinished(text)
	return r != nil && 0 < r.ContentLength && r.ContentLength <= 48<<10
}

// pausesIn reports whether a pause follows such a text.
func (s *stream) pausesIn(such func(text string) bool) bool {
	return slices.ContainsFunc(s.Pauses, func(p pause) bool { return such(s.bytes()[:p.At]) })
}

func begins(long, short []string) bool {
	return len(short) <= len(long) && slices.Equal(long[:len(short)], short)
}

// lacksOnlyOfPanics reports whether the answers that only net/http has given are of a handler that
// panicked.
func (d *difference) lacksOnlyOfPanics() bool {
	_, key, panicked := strings.Cut(strings.Join(d.want.Ran, ""), panicNote)
	key, _, _ = strings.Cut(key, ";")
	n := min(len(d.want.Answers), len(d.have.Answers))
	return panicked && !slices.ContainsFunc(d.want.Answers[n:], func(a string) bool { return !strings.Contains(a, key) })
}

// texts are the answers, and what came after them.
func (o *outcome) texts() string { return strings.Join(o.Answers, "") + o.Rest }

// keepsOpen reports whether http1 gives the same answers, but does not close the connection or says
// so at another place.
func (d *difference) keepsOpen() bool {
	return len(d.want.Answers) > 0 && begins(d.have.open(), d.want.open())
}

// open are the answers without what says that the connection closes.
func (o *outcome) open() []string {
	return strings.Split(strings.ReplaceAll(strings.Join(o.Answers, between), "Connection: close\n", ""), between)
}
