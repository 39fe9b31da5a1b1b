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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/journal"
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

// do sends a request with headers, "Name: value", and returns the status, the headers that the gateway sets and the body.
func (p *poster) do(method, path, body string, headers ...string) string {
	p.t.Helper()
	r, err := http.NewRequest(method, p.base+path, strings.NewReader(body))
	must(p.t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
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
	ndjson, jsons := "Content-Type: application/x-ndjson", "Content-Type: application/json"
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
		{"413 the post does not fit into one envelope…", "POST", "/v1/meter", strings.Repeat("x", mostPosted+1), nil},
		{"403 web pages of https://example.com…", "POST", "/v1/meter", "x", []string{"Origin: https://example.com"}},
	} {
		p.want(c.want, c.method, c.path, c.body, c.headers...)
	}
	largest := strings.Repeat("x", 4083)
	p.want("204", "POST", "/v1/large", largest)
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
	if st := s.Stats(); st.Records != 13 || st.Clients != 3 || st.Producers != 1 || st.Queued != 0 || st.QueuedSize != 0 || st.Duplicates != 0 {
		t.Errorf("%+v", st)
	}
}

// producing is a conversation of producers with one client's records: what the producer part of the test suite of Durable
// Streams 0.3.6 asks for, as far as a server that only takes posts can show it.
var producing = []struct {
	about      string
	id         string
	epoch, seq uint64
	want       string
}{
	{"a first post", "a", 0, 0, "200 Producer-Epoch=0 Producer-Seq=0"},
	{"the next one", "a", 0, 1, "200 Producer-Epoch=0 Producer-Seq=1"},
	{"the same again", "a", 0, 1, "204 Producer-Epoch=0 Producer-Seq=1"},
	{"an older one again", "a", 0, 0, "204 Producer-Epoch=0 Producer-Seq=1"},
	{"a gap", "a", 0, 4, "409 Producer-Expected-Seq=2 Producer-Received-Seq=4…"},
	{"after the gap", "a", 0, 2, "200 Producer-Epoch=0 Producer-Seq=2"},
	{"a new epoch", "a", 1, 0, "200 Producer-Epoch=1 Producer-Seq=0"},
	{"an old epoch", "a", 0, 3, "403 Producer-Epoch=1…"},
	{"an old epoch's first", "a", 0, 0, "403 Producer-Epoch=1…"},
	{"a new epoch that does not begin at 0", "a", 2, 1, "400…"},
	{"the epoch goes on", "a", 1, 1, "200 Producer-Epoch=1 Producer-Seq=1"},
	{"an epoch far ahead", "a", 1<<53 - 1, 0, "200 Producer-Epoch=9007199254740991 Producer-Seq=0"},
	{"an unknown producer in the middle", "b", 0, 1, "409 Producer-Expected-Seq=0 Producer-Received-Seq=1…"},
	{"another producer", "b", 7, 0, "200 Producer-Epoch=7 Producer-Seq=0"},
	{"and again", "b", 7, 0, "204 Producer-Epoch=7 Producer-Seq=0"},
}

// TestProducers: a producer's posts are stored once and in order, per client, also after a restart, with a checkpoint or
// without one.
func TestProducers(t *testing.T) {
	for _, shutdown := range []bool{false, true} {
		log := newGate()
		s := &Server{Log: log}
		p := posts(t, s)
		stored := 0
		say := func(p *poster) {
			for _, c := range producing {
				p.want(c.want, "POST", "/v1/c", c.about, by(c.id, c.epoch, c.seq)...)
				if strings.HasPrefix(c.want, "200") {
					stored++
				}
			}
			p.want("200 Producer-Epoch=0 Producer-Seq=0", "POST", "/v1/other", "x", by("a", 0, 0)...)
		}
		say(p)
		if got := len(shown(t, log)); got != stored+1 {
			t.Errorf("%d records are stored, want %d", got, stored+1)
		}
		if st := s.Stats(); st.Duplicates != 3 || st.Ahead != 2 || st.Producers != 3 {
			t.Errorf("%+v", st)
		}
		if shutdown {
			must(t, s.Shutdown(soon(t)))
		} else {
			must(t, s.Close())
		}
		p = posts(t, &Server{Log: log})
		p.want("204 Producer-Epoch=7 Producer-Seq=0", "POST", "/v1/c", "x", by("b", 7, 0)...)
		p.want("200 Producer-Epoch=7 Producer-Seq=1", "POST", "/v1/c", "x", by("b", 7, 1)...)
		p.want("403 Producer-Epoch=9007199254740991…", "POST", "/v1/c", "x", by("a", 1, 2)...)
		p.want("409 Producer-Expected-Seq=1 Producer-Received-Seq=5…", "POST", "/v1/other", "x", by("a", 0, 5)...)
		if got := shown(t, log); got[len(got)-1] != fmt.Sprintf("c %d x by=b/7/1", stored+1) {
			t.Errorf("the session went on with %q", got[len(got)-1])
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

// TestPostsWithoutRoom: a post that finds no room waits for it, and after 5 s it is refused and not stored.
func TestPostsWithoutRoom(t *testing.T) {
	log := newGate()
	s := &Server{Log: log, QueueBytes: 3 * (1000 + recordCost)}
	p := posts(t, s)
	p.want("201", "PUT", "/v1/c", "")
	body := strings.Repeat("x", 1000)
	log.set(true, nil)
	answers := make(chan string, 10)
	for range 3 {
		go func() { answers <- p.do("POST", "/v1/c", body) }()
	}
	waitFor(t, "a full queue", func() bool { return s.Stats().Queued == 3 })
	refused := p.do("POST", "/v1/c", "no room in time")
	if !strings.HasPrefix(refused, "429 Retry-After=5") {
		t.Errorf("got %q", refused)
	}
	for range 3 {
		go func() { answers <- p.do("POST", "/v1/d", body) }()
	}
	waiting := func(n int) func() bool {
		return func() bool { s.queue.mu.Lock(); defer s.queue.mu.Unlock(); return s.queue.posted >= n*1000 }
	}
	waitFor(t, "three posts to wait", waiting(2))
	log.set(false, nil)
	got := map[string]int{}
	for range 6 {
		got[(<-answers)[:3]]++
	}
	if got["204"]+got["429"] != 6 || got["204"] < 5 { // the sixth was perhaps more than may wait
		t.Errorf("got %v", got)
	}
	if n := len(shown(t, log)); n != got["204"] {
		t.Errorf("%d records are stored of %d", n, got["204"])
	}
}

// TestPostsOnAFullDisk: a full log refuses posts after 5 s, and takes them again when there is space, without frames.
func TestPostsOnAFullDisk(t *testing.T) {
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

	// A post comes while the log stores a new session of frames: the newer one stays.
	log.set(true, nil)
	slow := up.peer(t)
	slow.send(wire.Packet{Command: wire.Conn, ID: 1, Content: first("d").append(nil)})
	waitFor(t, "the session to be granted", func() bool {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		return s.sessions.highest > s.sessions.byClient["c"].epoch
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
	p = posts(t, &Server{Log: log})
	p.want("204 Producer-Epoch=0 Producer-Seq=1", "POST", "/v1/c", "next post", by("a", 0, 1)...)
}

// TestPostTokens: a token lets its client post, one with writes:PREFIX all clients with the prefix, at every door. A wrong
// one waits for its answer and is counted.
func TestPostTokens(t *testing.T) {
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
	for _, line := range []string{"a token-of-the-client writes", "a token-of-the-client writes:", "a token-of-the-client reads:"} {
		must(t, os.WriteFile(path, []byte(line), 0o600))
		if err := tokens.Reload(); err == nil {
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
	kept := all.states(nil, "c", nil, 1000, 400)
	if len(kept) != 400 || all.count != 400 {
		t.Errorf("%d are kept, %d are counted", len(kept), all.count)
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
