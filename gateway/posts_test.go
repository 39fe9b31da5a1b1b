package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// poster posts to a server.
type poster struct {
	t    testing.TB
	base string
	http http.Client
}

// posts serves s for posts, too, until the test ends.
func posts(t testing.TB, s *Server) *poster {
	t.Helper()
	ln := listen(t)
	return postsOn(t, s, ln)
}

func postsOn(t testing.TB, s *Server, ln net.Listener) *poster {
	ended := make(chan error, 1)
	go func() { ended <- s.ServePosts(ln) }()
	p := &poster{t: t, base: "http://" + ln.Addr().String(), http: http.Client{Timeout: patience}}
	t.Cleanup(func() {
		p.http.CloseIdleConnections()
		s.Close()
		<-ended
	})
	return p
}

// chunked is a header with which a request does not say how long its body is: a loan, as all longer ones.
const chunked = "Transfer-Encoding: chunked"

// do sends a request with headers, "Name: value", and returns the status, the headers that the gateway sets and the body.
func (p *poster) do(method, path, body string, headers ...string) string {
	p.t.Helper()
	r, err := http.NewRequest(method, p.base+path, strings.NewReader(body))
	must(p.t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if r.Header.Set(name, value); h == chunked {
			r.ContentLength = -1
		}
	}
	resp, err := p.http.Do(r)
	must(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(p.t, err)
	said := fmt.Sprint(resp.StatusCode)
	for _, name := range []string{epochHeader, seqHeader, expectedHeader, receivedHeader, "Retry-After", "Allow", "Www-Authenticate", "Access-Control-Allow-Origin"} {
		if value := resp.Header.Get(name); value != "" {
			said += " " + name + "=" + value
		}
	}
	if len(text) > 0 {
		said += " " + strings.TrimSpace(string(text))
	}
	return said
}

func (p *poster) want(want, method, path, body string, headers ...string) {
	p.t.Helper()
	if got := p.do(method, path, body, headers...); got != want && !(strings.HasSuffix(want, "…") && strings.HasPrefix(got, strings.TrimSuffix(want, "…"))) {
		p.t.Errorf("%s %s %.60q %q: got %q, want %q", method, path, body, headers, got, want)
	}
}

// by returns the headers of a producer.
func by(id string, epoch, seq uint64) []string {
	return []string{"Producer-Id: " + id, fmt.Sprint("Producer-Epoch: ", epoch), fmt.Sprint("Producer-Seq: ", seq)}
}

// shown are all records of a log, as text.
func shown(t testing.TB, log journal.Log) (all []string) {
	t.Helper()
	_, err := Check(context.Background(), log, func(r journal.Record) error {
		text := fmt.Sprintf("%s %d %s", r.Client, r.Seq, r.Data)
		if topic := r.Text(journal.Topic); topic != "" {
			text += " topic=" + topic
		}
		if kind := r.Text(journal.ContentType); kind != "" {
			text += " type=" + kind
		}
		if p, is := r.Producer(); is {
			text += fmt.Sprintf(" by=%s/%d/%d", p.ID, p.Epoch, p.Seq)
		}
		all = append(all, text)
		return nil
	})
	must(t, err)
	return all
}

// TestPosts: each kind of request has its answer and its records, and what is refused stores nothing.
func TestPosts(t *testing.T) {
	log := newGate()
	s := &Server{Log: log, Limits: engine.Limits{FrameSize: 4 << 10}}
	p := posts(t, s)
	ndjson, jsons := "Content-Type: Application/x-ndjson", "Content-Type: application/json"
	p.want("404", "HEAD", "/v1/meter", "")
	p.want("201", "PUT", "/v1/meter", "")
	p.want("200", "PUT", "/v1/meter", "")
	p.want("200", "HEAD", "/v1/meter", "")
	p.want("204", "POST", "/v1/meter", "plain")
	p.want("204", "POST", "/v1/meter/site/7", "warm", "Content-Type: text/plain")
	p.want("204", "POST", "/v1/a%2Fb/%C3%A9", "escaped")
	p.want("204", "POST", "/v1/meter", "{\"a\": 1}\r\n\nnot JSON\n", ndjson)
	p.want("204", "POST", "/v1/meter", ` [{"a": 1}, [2, 3], "x"] `, jsons)
	p.want("204", "POST", "/v1/meter", ` {"one": [1]}`, "Content-Type: application/json; charset=utf-8")
	p.want("204", "POST", "/v1/meter", "quick", "Hone-Level: received")
	p.want("200 Producer-Epoch=0 Producer-Seq=0", "POST", "/v1/meter", "x\ny", append(by("p", 0, 0), ndjson)...)

	for _, c := range []struct {
		want, method, path, body string
		headers                  []string
	}{
		{"400 the body has no record", "POST", "/v1/meter", "", nil},
		{"400 the body has no record", "POST", "/v1/meter", "\n\n", []string{ndjson}},
		{"400 the body has no record", "POST", "/v1/meter", " [ ]", []string{jsons}},
		{"400 the body is not JSON", "POST", "/v1/meter", `[{"a": 1}, {"b": ]`, []string{jsons}},
		{"400 the body is not JSON", "POST", "/v1/meter", "", []string{jsons}},
		{"400 Hone-Level is received or disk, not \"quorum\"", "POST", "/v1/meter", "x", []string{"Hone-Level: quorum"}},
		{"400 Producer-Id: like a client's name…", "POST", "/v1/meter", "x", []string{"Producer-Epoch: 0", "Producer-Seq: 0"}},
		{"400 Producer-Seq is a number…", "POST", "/v1/meter", "x", []string{"Producer-Id: p", "Producer-Epoch: 0"}},
		{"400 Producer-Epoch is a number…", "POST", "/v1/meter", "x", []string{"Producer-Id: p", "Producer-Epoch: -1", "Producer-Seq: 1"}},
		{"400 Producer-Seq is a number…", "POST", "/v1/meter", "x", by("p", 0, 1<<53)},
		{"400 a content type has…", "POST", "/v1/meter", "x", []string{"Content-Type: " + strings.Repeat("t", 256)}},
		{"400 a content type has…", "POST", "/v1/meter", "x", []string{"Content-Type: text/é"}},
		{"400 a client's name is printable…", "POST", "/v1/a%20b", "x", nil},
		{"400 a client's name has 1 to 64…", "POST", "/v1/", "x", nil},
		{"400 a topic has…", "POST", "/v1/meter/%ff", "x", nil},
		{"400 a topic has…", "POST", "/v1/meter/a%00", "x", nil},
		{"400 a topic has…", "POST", "/v1/meter/" + strings.Repeat("t", 256), "x", nil},
		{"404 posts go to…", "POST", "/meter", "x", nil},
		{"405 Allow=POST, PUT, HEAD…", "GET", "/v1/meter", "", nil},
		{"405 Allow=POST, PUT, HEAD…", "DELETE", "/v1/meter", "", nil},
		{"405 Allow=POST, PUT, HEAD…", "PUT", "/v1/meter/topic", "", nil},
		{"413 the post does not fit into one envelope: record 1 has 4084 bytes…", "POST", "/v1/meter", strings.Repeat("x", 4084), nil},
		{"413 the post does not fit into one envelope: 7169 records…", "POST", "/v1/meter", strings.Repeat("x\n", 7169), []string{ndjson}},
		{"413 the post does not fit into one envelope", "POST", "/v1/meter", strings.Repeat("x", mostPosted+1), nil},
		{"413 the post does not fit into one envelope", "POST", "/v1/meter", strings.Repeat("x", mostPosted+1), []string{chunked}},
		{"413 the post does not fit into one envelope: 7168 records…", "POST", "/v1/meter", strings.Repeat(strings.Repeat("x", 60)+"\n", 7168), []string{ndjson}},
		{"403 web pages of https://example.com…", "POST", "/v1/meter", "x", []string{"Origin: https://example.com"}},
	} {
		p.want(c.want, c.method, c.path, c.body, c.headers...)
	}
	half, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
	must(t, err)
	defer half.Close()
	io.WriteString(half, "POST /v1/meter HTTP/1.1\r\nHost: a\r\n"+chunked+"\r\n\r\n4\r\nhalf\r\n")
	half.(*net.TCPConn).CloseWrite()
	if answer, err := io.ReadAll(half); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
		t.Errorf("half a body: %.100q, %v", answer, err)
	}
	largest := strings.Repeat("x", 4083)
	p.want("204", "POST", "/v1/large", largest, chunked)
	want := []string{
		"meter 1 plain",
		"meter 2 warm topic=site/7 type=text/plain",
		"a/b 1 escaped topic=é",
		`meter 3 {"a": 1} type=application/json`,
		"meter 4 not JSON type=application/json",
		`meter 5 {"a": 1} type=application/json`,
		"meter 6 [2, 3] type=application/json",
		`meter 7 "x" type=application/json`,
		`meter 8 {"one": [1]} type=application/json; charset=utf-8`,
		"meter 9 quick",
		"meter 10 x type=application/json",
		"meter 11 y type=application/json by=p/0/0",
		"large 1 " + largest,
	}
	if got := shown(t, log); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r := serve(t, s).reader(t, "topics", FromFirst)
	r.Topic, r.Passing, r.Eager = "site/", true, true
	for found := 0; ; {
		b, err := r.Next(soon(t))
		if must(t, err); len(b.Messages) == 0 { // it has everything
			if found != 1 {
				t.Errorf("a reader of a topic got %d records", found)
			}
			break
		}
		if found += len(b.Messages); string(b.Messages[0].Data) != "warm" {
			t.Errorf("a reader of a topic got %q", b.Messages[0].Data)
		}
	}
	if st := s.Stats(); st.Records != 13 || st.Clients != 3 || st.Producers != 1 || st.Queued != 0 || st.QueuedSize != 0 || st.Duplicates != 0 {
		t.Errorf("%+v", st)
	}
}

// said is a post of a producer: id/epoch/number, with - for a header that is missing; and what the answer begins with.
type said struct{ by, body, want string }

// suite is the producer part of the test suite of Durable Streams 0.3.6, in its order, case by case, and what it does not
// ask for. not says why a case does not apply. What is answered with 200 is stored.
var suite = []struct {
	about, not string
	says       []said
	headers    []string
}{
	{about: "a first post", says: []said{{"p/0/0", "a", "200 Producer-Epoch=0 Producer-Seq=0"}}},
	{about: "numbers in a row", says: []said{{"p/0/0", "a", "200"}, {"p/0/1", "b", "200 Producer-Epoch=0 Producer-Seq=1"}, {"p/0/2", "c", "200"}}},
	{about: "a duplicate", says: []said{{"p/0/0", "a", "200"}, {"p/0/0", "a", "204 Producer-Epoch=0 Producer-Seq=0"}}},
	{about: "a new epoch begins at 0", says: []said{{"p/0/0", "a", "200"}, {"p/0/1", "b", "200"}, {"p/1/0", "c", "200 Producer-Epoch=1 Producer-Seq=0"}, {"p/1/1", "d", "200"}}},
	{about: "an old epoch", says: []said{{"p/1/0", "a", "200"}, {"p/0/0", "b", "403 Producer-Epoch=1 "}, {"p/0/1", "b", "403"}}},
	{about: "a gap", says: []said{{"p/0/0", "a", "200"}, {"p/0/2", "c", "409 Producer-Expected-Seq=1 Producer-Received-Seq=2 "}, {"p/0/1", "b", "200"}}},
	{about: "a new epoch that does not begin at 0", says: []said{{"p/0/0", "a", "200"}, {"p/1/5", "b", "400"}, {"p/1/1", "b", "400"}, {"p/0/1", "b", "200"}}},
	{about: "all headers or none", says: []said{{"p/-/-", "a", "400"}, {"-/0/-", "a", "400"}, {"p/0/-", "a", "400"}, {"p/-/0", "a", "400"}, {"-/-/0", "a", "400"}, {"-/0/0", "a", "400"}}},
	{about: "numbers that are none", says: []said{{"p/0/1abc", "a", "400"}, {"p/0xyz/0", "a", "400"}, {"p/1e3/0", "a", "400"}, {"p/-1/0", "a", "400"}, {"p/0/9007199254740992", "a", "400"}, {"p/0/0", "a", "200"}}},
	{about: "each producer has its own numbers", says: []said{{"p/0/0", "a", "200"}, {"q/0/0", "b", "200"}, {"p/0/1", "c", "200"}, {"q/0/1", "d", "200"}}},
	{about: "a duplicate of the first changes nothing", says: []said{{"p/0/0", "a", "200"}, {"p/0/0", "a", "204"}, {"p/0/1", "b", "200"}}},
	{about: "a duplicate is told the newest number", says: []said{{"p/0/0", "a", "200"}, {"p/0/1", "b", "200"}, {"p/0/2", "c", "200"}, {"p/0/1", "b", "204 Producer-Epoch=0 Producer-Seq=2"}}},
	{about: "two with one id", says: []said{{"p/0/0", "a", "200"}, {"p/1/0", "b", "200"}, {"p/0/1", "c", "403 Producer-Epoch=1 "}}},
	{about: "an epoch that goes back", says: []said{{"p/2/0", "a", "200"}, {"p/1/0", "b", "403 Producer-Epoch=2 "}}},
	{about: "beside Stream-Seq", headers: []string{"Stream-Seq: app-1"}, says: []said{{"p/0/0", "a", "200"}}},
	{about: "a duplicate beside Stream-Seq", headers: []string{"Stream-Seq: app-1"}, says: []said{{"p/0/0", "a", "200"}, {"p/0/0", "a", "204"}}},
	{about: "data comes back", says: []said{{"p/0/0", "hello, \x00\xff", "200"}}},
	{about: "in order", says: []said{{"p/0/0", "0", "200"}, {"p/0/1", "1", "200"}, {"p/0/2", "2", "200"}, {"p/0/3", "3", "200"}, {"p/0/4", "4", "200"}}},
	{about: "a duplicate with other data", says: []said{{"p/0/0", "a", "200"}, {"p/0/1", "b", "200"}, {"p/0/1", "B", "204"}, {"p/0/2", "c", "200"}}},
	{about: "several producers in turn", says: []said{{"p/0/0", "a", "200"}, {"q/0/0", "b", "200"}, {"r/0/0", "c", "200"}, {"p/0/1", "d", "200"}, {"q/0/1", "e", "200"}, {"r/0/1", "f", "200"}}},
	{about: "JSON comes back", headers: asJSON, says: []said{{"p/0/0", `{"a": 1}`, "200"}}},
	{about: "JSON in order", headers: asJSON, says: []said{{"p/0/0", `{"a": 1}`, "200"}, {"p/0/1", `{"a": 2}`, "200"}, {"p/0/2", `{"a": 3}`, "200"}}},
	{about: "a duplicate of JSON", headers: asJSON, says: []said{{"p/0/0", `{"a": 1}`, "200"}, {"p/0/0", `{"a": 1}`, "204"}, {"p/0/1", `{"a": 2}`, "200"}}},
	{about: "what is not JSON", headers: asJSON, says: []said{{"p/0/0", `{ not JSON }`, "400"}}},
	{about: "an empty array", headers: asJSON, says: []said{{"p/0/0", `[]`, "400"}}},
	{about: "a stream that is not there", not: "a client's first post makes it known"},
	{about: "another content type than the stream's", not: "each record has its own"},
	{about: "no body", says: []said{{"p/0/0", "", "400"}}},
	{about: "an empty id", says: []said{{"/0/0", "a", "400"}, {"/-/-", "a", "400"}}},

	{about: "ours: a producer that comes in the middle", says: []said{{"p/0/1", "a", "409 Producer-Expected-Seq=0 Producer-Received-Seq=1 "}, {"p/7/0", "a", "200"}}},
	{about: "ours: the highest epoch", says: []said{{"p/0/0", "a", "200"}, {"p/9007199254740991/0", "b", "200 Producer-Epoch=9007199254740991 Producer-Seq=0"}}},
}

var asJSON = []string{"Content-Type: application/json"}

// says sends a post of the suite and compares the answer.
func (p *poster) says(client string, c said, headers ...string) {
	p.t.Helper()
	headers = slices.Clone(headers)
	for i, value := range strings.Split(c.by, "/") {
		if value != "-" {
			headers = append(headers, []string{idHeader, epochHeader, seqHeader}[i]+": "+value)
		}
	}
	p.want(c.want+"…", "POST", "/v1/"+client, c.body, headers...)
}

// TestSuite: a producer's posts are stored once and in order, per client, also after a restart, with a checkpoint or
// without one.
func TestSuite(t *testing.T) {
	for _, shutdown := range []bool{false, true} {
		log := newGate()
		s := &Server{Log: log}
		p := posts(t, s)
		p.want("201", "PUT", "/v1/made", "")
		duplicates, ahead, refused := uint64(0), uint64(0), uint64(0)
		newest := map[string]said{} // by client and producer
		for i, c := range suite {
			client, want := fmt.Sprint("c", i), []string(nil)
			for _, says := range c.says {
				p.says(client, says, c.headers...)
				if says.want >= "4" {
					refused++
				}
				switch says.want[:3] {
				case "200":
					want = append(want, says.body)
					id, _, _ := strings.Cut(says.by, "/")
					newest[client+" "+id] = says
				case "204":
					duplicates++
				case "409":
					ahead++
				}
			}
			if got := records(t, log)[client]; !slices.Equal(got, want) {
				t.Errorf("%s: %q are stored, want %q", c.about, got, want)
			}
		}
		if st := s.Stats(); st.Duplicates != duplicates || st.Ahead != ahead || st.Refused != refused || st.Producers != len(newest) {
			t.Errorf("%d duplicates, %d refused, %d of them ahead, %d producers; want %d, %d, %d, %d", st.Duplicates, st.Refused, st.Ahead, st.Producers, duplicates, refused, ahead, len(newest))
		}
		if shutdown {
			must(t, s.Shutdown(soon(t)))
		} else {
			must(t, s.Close())
		}
		before := len(shown(t, log))
		p = posts(t, &Server{Log: log})
		p.want("200", "PUT", "/v1/made", "")
		for of, says := range newest {
			client, id, _ := strings.Cut(of, " ")
			var epoch, seq uint64
			fmt.Sscanf(strings.TrimPrefix(says.by, id+"/"), "%d/%d", &epoch, &seq)
			p.want(fmt.Sprintf("204 Producer-Epoch=%d Producer-Seq=%d", epoch, seq), "POST", "/v1/"+client, "again", by(id, epoch, seq)...)
			p.want(fmt.Sprintf("409 Producer-Expected-Seq=%d Producer-Received-Seq=%d…", seq+1, seq+2), "POST", "/v1/"+client, "ahead", by(id, epoch, seq+2)...)
			p.want(fmt.Sprintf("200 Producer-Epoch=%d Producer-Seq=%d", epoch, seq+1), "POST", "/v1/"+client, "next", by(id, epoch, seq+1)...)
		}
		if got := len(shown(t, log)) - before; got != len(newest) {
			t.Errorf("%d records are stored after the restart, want %d", got, len(newest))
		}
	}
}

// TestPostsWaitForTheLog: nothing is acknowledged before it is stored, a duplicate not before its original.
func TestPostsWaitForTheLog(t *testing.T) {
	log := newGate()
	s := &Server{Log: log}
	p := posts(t, s)
	p.want("201", "PUT", "/v1/c", "")
	log.set(true, nil)
	answers := make(chan string, 3)
	go func() { answers <- p.do("POST", "/v1/c", "x", by("a", 0, 0)...) }()
	<-log.tried
	go func() { answers <- p.do("POST", "/v1/c", "x", by("a", 0, 0)...) }()
	go func() { answers <- p.do("POST", "/v1/c", "y", "Hone-Level: received") }()
	if got := <-answers; got != "204" {
		t.Errorf("at level received: %q", got)
	}
	waitFor(t, "the duplicate to wait", func() bool {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		return len(s.queue.waiting) > 0 && s.queue.waiting[0].messages == 2
	})
	select {
	case got := <-answers:
		t.Errorf("answered before the log: %q", got)
	default:
	}
	log.set(false, nil)
	got := []string{<-answers, <-answers}
	slices.Sort(got)
	if want := "200 Producer-Epoch=0 Producer-Seq=0"; got[0] != want || got[1] != "204"+want[3:] {
		t.Errorf("got %q", got)
	}
}

// TestPostsWithoutRoom: a post that finds no room waits for it, and after 5 s it is refused and not stored. Those that wait
// are stored in their order, so that none of a producer is a gap, and no more wait than fit into the queue.
func TestPostsWithoutRoom(t *testing.T) {
	t.Parallel()                        // it waits more than it works
	const size = 1000 + recordCost + 20 // with the producer
	log := newGate()
	s := &Server{Log: log, QueueBytes: 3 * size}
	p := posts(t, s)
	p.want("201", "PUT", "/v1/c", "")
	log.set(true, nil)
	answers := make(chan string, 10)
	post := func(i, bytes int, headers ...string) {
		go func() { answers <- p.do("POST", "/v1/d", fmt.Sprintf("%0*d", bytes, i), headers...) }()
	}
	waiting := func(n int) func() bool {
		return func() bool { s.queue.mu.Lock(); defer s.queue.mu.Unlock(); return s.queue.posted == n*size }
	}
	for i, bytes := range []int{1000, 1030, 1030} { // with their costs they fill the queue
		post(i, bytes)
		waitFor(t, "it to be queued", func() bool { return s.Stats().Queued == i+1 })
		if i == 0 {
			<-log.tried
		}
	}
	if refused := p.do("POST", "/v1/c", "no room in time"); !strings.HasPrefix(refused, "429 Retry-After=5") {
		t.Errorf("got %q", refused)
	}
	for i := range 3 {
		post(3+i, 1000, by("p", 0, uint64(i))...)
		waitFor(t, "it to wait", waiting(i+1))
	}
	began := time.Now()
	if refused := p.do("POST", "/v1/c", "no room to wait"); !strings.HasPrefix(refused, "429 Retry-After=5") || time.Since(began) >= postTime {
		t.Errorf("got %q after %v", refused, time.Since(began))
	}
	log.pass() // there is room for one
	waitFor(t, "one to be queued", waiting(2))
	log.set(false, nil)
	got := map[string]int{}
	for range 6 {
		got[(<-answers)[:3]]++
	}
	if got["204"] != 3 || got["200"] != 3 {
		t.Errorf("got %v", got)
	}
	stored := records(t, log)["d"]
	for i, data := range stored {
		if strings.TrimLeft(data, "0") != strings.TrimLeft(fmt.Sprint(i), "0") {
			t.Errorf("record %d is %s", i, strings.TrimLeft(data, "0"))
		}
	}
	if st := s.Stats(); len(stored) != 6 || st.Clients != 2 || !waiting(0)() {
		t.Errorf("%d records of %d clients are stored", len(stored), st.Clients)
	}
}

// TestPostsOfOneClient: a client that has more than its share in the queue waits, although there is room for others, and its
// producer's posts wait in their order: none is a gap.
func TestPostsOfOneClient(t *testing.T) {
	log := newGate()
	s := &Server{Log: log, QueueBytes: 300_000}
	p := posts(t, s)
	p.want("201", "PUT", "/v1/d", "")
	log.set(true, nil)
	answers := make(chan string, 10)
	post := func(client string, headers ...string) {
		go func() { answers <- p.do("POST", "/v1/"+client, strings.Repeat("x", 60_000), headers...)[:3] }()
	}
	for i, client := range []string{"x", "d", "d", "d"} {
		post(client)
		waitFor(t, "it to be queued", func() bool { return s.Stats().Queued == i+1 })
		if i == 0 {
			<-log.tried
		}
	}
	waiting := func() int { s.queue.mu.Lock(); defer s.queue.mu.Unlock(); return s.queue.posted / 60_000 }
	for i := range 2 {
		post("d", by("p", 0, uint64(i))...)
		waitFor(t, "it to wait", func() bool { return waiting() == i+1 })
	}
	log.pass() // x has left the queue
	if got := <-answers; got != "204" || waiting() != 2 {
		t.Errorf("got %s, and %d wait", got, waiting())
	}
	log.set(false, nil)
	got := map[string]int{}
	for range 5 {
		got[<-answers]++
	}
	if got["204"] != 3 || got["200"] != 2 {
		t.Errorf("got %v", got)
	}
}

// TestPostsAtTheEnd: posts that are queued or wait for room are told that they may be stored or not, when the server is
// closed and when its log fails, and handlers on loan return.
func TestPostsAtTheEnd(t *testing.T) {
	for _, end := range []func(s *Server, log *gate){
		func(s *Server, _ *gate) { s.Close() },
		func(_ *Server, log *gate) { log.set(false, errors.New("it has failed")) },
	} {
		log := newGate()
		s := &Server{Log: log, QueueBytes: recordCost + 50}
		p := posts(t, s)
		p.want("201", "PUT", "/v1/lent", "")
		log.set(true, nil)
		lent, err := http.NewRequest("POST", p.base+"/v1/lent", io.MultiReader(strings.NewReader("x")))
		must(t, err)
		over := make(chan bool)
		go func() {
			defer close(over)
			if resp, err := p.http.Do(lent); err == nil { // its connection may end without an answer
				resp.Body.Close()
			}
		}()
		waitFor(t, "a handler on loan", func() bool { return s.Stats().Queued == 1 && s.posts.Stats().LateHandlers == 1 })
		told := make(chan error, 2)
		for range 2 { // the second one waits for room
			s.post(&post{client: "c", level: Disk, records: []content{{data: []byte("x")}}, size: 1, done: func(why error) { told <- why }})
		}
		end(s, log)
		for range 2 {
			if why := <-told; !errors.Is(why, ErrServerClosed) {
				t.Errorf("told %v", why)
			}
		}
		<-over
		waitFor(t, "the handler's end", func() bool { return s.posts.Stats().LateHandlers == 0 })
	}
}

// TestPostsOnAFullDisk: a full log refuses posts after 5 s, and takes them again when there is space, without frames.
func TestPostsOnAFullDisk(t *testing.T) {
	t.Parallel() // it waits more than it works
	log := newGate()
	s := &Server{Log: log, retry: time.Millisecond}
	p := posts(t, s)
	p.want("204", "POST", "/v1/c", "before")
	log.set(false, journal.ErrNoSpace)
	first := make(chan string, 1)
	go func() { first <- p.do("POST", "/v1/c", "waits for space") }()
	waitFor(t, "a full log", func() bool { return s.Stats().Full })
	if got := p.do("POST", "/v1/c", "refused"); !strings.HasPrefix(got, "503 Retry-After=5") {
		t.Errorf("got %q", got)
	}
	log.set(false, nil)
	if got := <-first; got != "204" {
		t.Errorf("the post that was queued got %q", got)
	}
	p.want("204", "POST", "/v1/c", "after")
	if got := strings.Join(shown(t, log), ", "); got != "c 1 before, c 2 waits for space, c 3 after" {
		t.Errorf("stored: %s", got)
	}
}

// TestPostsAndFrames: a client is one session at all doors, and the newest connection has it.
func TestPostsAndFrames(t *testing.T) {
	log := newGate()
	s := &Server{Log: log}
	up := serve(t, s)
	p := posts(t, s)
	peer := up.peer(t)
	w := peer.hello(first("c"))
	peer.stored(1, "frame")
	p.want("200 Producer-Epoch=0 Producer-Seq=0", "POST", "/v1/c", "post", by("a", 0, 0)...)
	peer.must(wire.ConnAck, 0, resultFenced)
	peer.closed()
	again := up.peer(t)
	again.send(wire.Packet{Command: wire.Conn, ID: 1, Content: hello{epoch: w.epoch, next: 2, client: "c"}.append(nil)})
	again.must(wire.ConnAck, 1, resultFenced)
	newer := up.peer(t)
	newer.hello(first("c"))
	newer.stored(1, "new session")
	p.want("204 Producer-Epoch=0 Producer-Seq=0", "POST", "/v1/c", "post", by("a", 0, 0)...)
	newer.stored(2, "a duplicate takes nothing over")
	p.want("200 Producer-Epoch=0 Producer-Seq=1", "POST", "/v1/c", "next post", by("a", 0, 1)...)
	newer.must(wire.ConnAck, 0, resultFenced)

	// A session of posts that a connection of frames has resumed is that connection's.
	p.want("204", "POST", "/v1/e", "post")
	odd := up.peer(t)
	odd.hello(hello{epoch: up.SessionStates("e", "", 1)[0].Epoch, next: 2, client: "e"})
	odd.stored(2, "frame")
	p.want("204", "POST", "/v1/e", "next post")
	odd.must(wire.ConnAck, 0, resultFenced)

	// A post comes while the log stores a new session of frames: the newer one stays.
	log.set(true, nil)
	slow := up.peer(t)
	slow.send(wire.Packet{Command: wire.Conn, ID: 1, Content: first("d").append(nil)})
	waitFor(t, "the session to be granted", func() bool {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		return s.sessions.highest > s.sessions.byClient["e"].epoch
	})
	answer := make(chan string, 1)
	go func() { answer <- p.do("POST", "/v1/d", "meanwhile", by("b", 0, 0)...) }()
	waitFor(t, "the post to be queued", func() bool { return s.Stats().Queued == 1 })
	log.set(false, nil)
	slow.must(wire.ConnAck, 1, resultFenced)
	if got := <-answer; got != "200 Producer-Epoch=0 Producer-Seq=0" {
		t.Errorf("the post got %q", got)
	}
	want := []string{"frame", "post", "new session", "a duplicate takes nothing over", "next post"}
	if got := records(t, log)["c"]; strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("stored %q", got)
	}
	must(t, s.Close())
	s = &Server{Log: log}
	up, p = serve(t, s), posts(t, s)
	p.want("204 Producer-Epoch=0 Producer-Seq=1", "POST", "/v1/c", "next post", by("a", 0, 1)...)
	p.want("204", "POST", "/v1/e", "after the restart")
	if w := up.peer(t).hello(hello{epoch: s.SessionStates("e", "", 1)[0].Epoch, next: 1, client: "e"}); w.last != 2 || w.summed {
		t.Errorf("a session of posts has %d records, and a checksum: %v", w.last, w.summed)
	}
}

// TestPostsComeBehindFrames: a post that takes a session over is stored behind its records, although an envelope before
// the last of them has room.
func TestPostsComeBehindFrames(t *testing.T) {
	log := newGate()
	s := &Server{Log: log}
	up, p := serve(t, s), posts(t, s)
	peer := up.peer(t)
	peer.hello(first("c"))
	log.set(true, nil)
	peer.submit(1, "1")
	<-log.tried
	const frames = 21 // of an envelope and a half: a client with much in the queue leaves an eighth of each to others
	for i := range uint64(frames - 1) {
		peer.submit(2+i, strings.Repeat("x", 60_000))
	}
	waitFor(t, "frames to be queued", func() bool { return s.Stats().Queued == frames })
	answer := make(chan string, 1)
	go func() { answer <- p.do("POST", "/v1/c", "post") }()
	waitFor(t, "the post to be queued", func() bool { return s.Stats().Queued == frames+1 })
	log.set(false, nil)
	if got := <-answer; got != "204" {
		t.Errorf("the post got %q", got)
	}
	if got := records(t, log)["c"]; len(got) != frames+1 || got[frames] != "post" {
		t.Errorf("%d records are stored, the last one has %d bytes", len(got), len(got[len(got)-1]))
	}
}

// TestPostLimits: a server remembers as many clients, and as many producers, as Server.Clients says; others are refused, and
// nothing of theirs is stored.
func TestPostLimits(t *testing.T) {
	log := newGate()
	p := posts(t, &Server{Log: log, Clients: 2, Origins: []string{"*"}})
	p.want("201", "PUT", "/v1/a", "")
	p.want("204 Access-Control-Allow-Origin=https://example.com", "POST", "/v1/b", "x", "Origin: https://example.com")
	p.want("503 Retry-After=5 the server has reached its limit of remembered clients: 2", "POST", "/v1/c", "x")
	p.want("503…", "PUT", "/v1/c", "")
	for _, id := range []string{"p", "q"} {
		p.want("200…", "POST", "/v1/a", "x", by(id, 0, 0)...)
	}
	p.want("503 Retry-After=5 too many producers", "POST", "/v1/a", "x", by("r", 0, 0)...)
	p.want("200…", "POST", "/v1/a", "x", by("p", 0, 1)...)
	if got := len(shown(t, log)); got != 4 {
		t.Errorf("%d records are stored", got)
	}
}

// TestPostsKeepNothingOfHeads: what the server remembers of clients and producers does not keep the heads of their requests.
func TestPostsKeepNothingOfHeads(t *testing.T) {
	if testrun.Race {
		t.Skip("it measures memory: run it without -race")
	}
	p := posts(t, &Server{Log: newGate()})
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, long := heap(), strings.Repeat("x", 20_000)
	const clients = 200
	for i := range clients {
		p.want("200…", "POST", fmt.Sprintf("/v1/c%d?%s", i, long), "x", append(by("p", 0, 0), "X-Long: "+long)...)
	}
	if each := (heap() - before) / clients; each > 8<<10 {
		t.Errorf("%d bytes for each client", each)
	}
}

// TestProducersExpire: a producer is forgotten after the expiry, counted over restarts, and with its client's session.
func TestProducersExpire(t *testing.T) {
	log := newGate()
	var ran int64
	var mu sync.Mutex
	start := func(checkpoint int) (*Server, *poster) {
		s := &Server{Log: log, Checkpoint: checkpoint, now: func() (int64, int64) { mu.Lock(); defer mu.Unlock(); return 1_800_000_000_000 + ran, ran }}
		must(t, s.Recover(soon(t))) // the time before it is a pause
		return s, posts(t, s)
	}
	pass := func(days int64) { mu.Lock(); defer mu.Unlock(); ran += days * day }
	s, p := start(1)
	say := func(client, id string, seq uint64, want string) {
		t.Helper()
		p.want(want+"…", "POST", "/v1/"+client, strings.Repeat("x", 2000), by(id, 0, seq)...)
	}
	say("c", "old", 0, "200")
	pass(4)
	say("c", "new", 0, "200")
	must(t, s.Shutdown(soon(t)))
	s, p = start(1)
	pass(2)
	say("c", "new", 1, "200")
	say("c", "old", 0, "204") // it has not come again: that stores nothing
	pass(2)
	say("c", "new", 2, "200") // 8 days after the old one
	waitFor(t, "the old producer's end", func() bool { return s.Stats().Producers == 1 })
	say("c", "old", 1, "409")
	pass(8)
	say("d", "newer", 0, "200")
	waitFor(t, "the session's end", func() bool { st := s.Stats(); return st.Producers == 1 && st.Clients == 1 })
	must(t, s.Close())
	s, p = start(0) // no checkpoint follows what is forgotten
	say("c", "new", 3, "409")
	say("d", "newer", 1, "200")
	if st := s.Stats(); st.Producers != 1 {
		t.Errorf("%d producers", st.Producers)
	}
	must(t, s.ForgetSession(soon(t), "d"))
	must(t, s.Close())
	_, p = start(0)
	say("d", "newer", 2, "409")
}

// TestPostTokens: a token lets its client post, one with writes:PREFIX all clients with the prefix, at every door. A wrong
// one waits for its answer and is counted.
func TestPostTokens(t *testing.T) {
	t.Parallel() // it waits more than it works
	path := filepath.Join(t.TempDir(), "tokens")
	must(t, os.WriteFile(path, []byte("c token-of-the-client\nsite token-of-the-site1 writes:site-\nr token-of-a-reader- reads\n"), 0o600))
	tokens, err := ReadTokens(path)
	must(t, err)
	s := &Server{Log: newGate(), Tokens: tokens, Origins: []string{"https://example.com"}}
	up := serve(t, s)
	p := posts(t, s)
	bearer := func(token string) string { return "Authorization: Bearer " + token }
	p.want("204", "POST", "/v1/c", "x", bearer("token-of-the-client"))
	p.want("204", "POST", "/v1/site-1", "x", bearer("token-of-the-site1"))
	p.want("204 Access-Control-Allow-Origin=https://example.com", "POST", "/v1/site-2", "x", bearer("token-of-the-site1"), "Origin: https://example.com")
	p.want("204 Access-Control-Allow-Origin=https://example.com", "OPTIONS", "/v1/site-2", "", "Origin: https://example.com")
	p.want("403…", "POST", "/v1/c", "x", bearer("token-of-the-client"), "Origin: https://example.org")
	began := time.Now()
	for _, c := range [][2]string{{"/v1/c", "token-of-the-site1"}, {"/v1/site", "token-of-the-site1"}, {"/v1/site-1", "token-of-the-client"}, {"/v1/r", "token-of-a-reader-"}} {
		p.want("401 Www-Authenticate=Bearer…", "POST", c[0], "x", bearer(c[1]))
	}
	p.want("401 Www-Authenticate=Bearer…", "PUT", "/v1/c", "")
	if took := time.Since(began); took < 5*refusalTime {
		t.Errorf("five wrong tokens took only %v", took)
	}
	if st := s.Stats(); st.Unauthorised != 5 || st.Clients != 3 {
		t.Errorf("%+v", st)
	}
	peer := up.peer(t)
	peer.hello(hello{next: 1, client: "site-9", token: "token-of-the-site1"})
	peer.stored(1, "by frames")
	reader := up.reader(t, "site-reader", FromFirst)
	reader.Token = "token-of-the-site1"
	if _, err := reader.Open(soon(t)); !errors.Is(err, ErrUnauthorised) {
		t.Errorf("a token for writing reads: %v", err)
	}
	for _, line := range []string{"a token-of-the-client writes", "a token-of-the-client writes:", "a token-of-the-client reads:"} {
		must(t, os.WriteFile(path, []byte(line), 0o600))
		if err := tokens.read(); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}

// TestManyProducers: a client has up to 1,000 producers, which expire like sessions.
func TestManyProducers(t *testing.T) {
	var all producers
	of := newSession("c", 1, 0)
	for i := range mostProducers {
		if all.isFull("c", 1e6) {
			t.Fatalf("full at %d", i)
		}
		all.add(&producer{client: "c", id: fmt.Sprint(i), session: of, seen: int64(i), isKept: true})
	}
	if !all.isFull("c", 1e6) || all.isFull("d", 1e6) || !all.isFull("d", mostProducers) {
		t.Error("the limits do not hold")
	}
	all.learn(journal.Producer{Client: "c", ID: "999", Epoch: 2, Seq: 5}, of, 0)
	for _, older := range []journal.Producer{{Epoch: 2, Seq: 4}, {Epoch: 1, Seq: 9}} { // as a checkpoint has it beside a newer record
		older.Client, older.ID = "c", "999"
		if all.learn(older, of, 0); all.find("c", "999").newest != (numbering{2, 5}) {
			t.Errorf("%+v is newer than 2, 5", older)
		}
	}
	all.find("c", "999").newest = numbering{9, 9} // queued
	all.find("c", "998").isKept = false           // queued, and nothing before
	all.find("c", "0").record = 1                 // queued long ago
	kept := all.states(nil, "c", 1000, 400)
	if len(kept) != 400 || all.count != 401 {
		t.Errorf("%d are kept, %d are counted", len(kept), all.count)
	}
	for _, k := range kept {
		if k.ID == "999" && (k.Epoch != 2 || k.Seq != 5 || k.Seen != -1) {
			t.Errorf("a checkpoint has %+v", k)
		}
	}
	all.forget("c")
	if all.count != 0 || all.find("c", "999") != nil {
		t.Error("not forgotten")
	}
}

// TestCheckpointBehindAPost: a checkpoint has of a producer what is stored, not what waits.
func TestCheckpointBehindAPost(t *testing.T) {
	log := newGate()
	s := &Server{Log: log, Checkpoint: 1}
	p := posts(t, s)
	for i := range uint64(50) {
		p.want(fmt.Sprint("200 Producer-Epoch=0 Producer-Seq=", i), "POST", "/v1/c", "x", by("a", 0, i)...)
	}
	log.set(true, nil)
	answer := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "POST", p.base+"/v1/c", strings.NewReader("unstored"))
		for _, h := range by("a", 0, 50) {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		resp, err := p.http.Do(r)
		if err == nil && resp.StatusCode < 300 {
			err = errors.New("it was acknowledged")
		} else {
			err = nil
		}
		if resp != nil {
			resp.Body.Close()
		}
		answer <- err
	}()
	waitFor(t, "the post to be queued", func() bool { return s.Stats().Queued == 1 })
	must(t, s.Close())
	must(t, <-answer)
	log.set(false, nil)
	p = posts(t, &Server{Log: log})
	p.want("200 Producer-Epoch=0 Producer-Seq=50", "POST", "/v1/c", "stored", by("a", 0, 50)...)
	p.want("204 Producer-Epoch=0 Producer-Seq=50", "POST", "/v1/c", "stored", by("a", 0, 50)...)
	if got := records(t, log)["c"]; len(got) != 51 || got[50] != "stored" {
		t.Errorf("%d records are stored, the last one is %q", len(got), got[len(got)-1])
	}
}
