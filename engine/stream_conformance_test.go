package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// streams is a line protocol whose visits may wait. "put n" is followed by n bytes and
// answered with their checksum, "get n" is answered with n bytes of pattern.
type streams struct {
	lines // for all other lines
	// failed is called with the errors of Flush and More.
	failed func(t *engine.Turn, err error)
	// waits is called before every More.
	waits func(t *engine.Turn)
}

// streamChunk is how much "get" flushes at a time.
const streamChunk = 16 << 10

func (p streams) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		end := bytes.IndexByte(in[used:], '\n')
		if end < 0 {
			return used, 1, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		line := string(in[used : used+end])
		used += end + 1
		verb, number, _ := strings.Cut(line, " ")
		n, _ := strconv.Atoi(number)
		switch verb {
		case "put":
			sum := crc32.NewIEEE()
			for n > 0 {
				part := in[used:min(len(in), used+n)]
				sum.Write(part)
				used += len(part)
				if n -= len(part); n == 0 {
					break
				}
				if p.waits != nil {
					p.waits(t)
				}
				if in, err = t.More(used, min(n, 512)); err != nil {
					return 0, 0, p.fail(t, err)
				}
				used = 0
			}
			t.Out = fmt.Appendf(t.Out, "%08x\n", sum.Sum32())
		case "get":
			for at := 0; at < n; at += streamChunk {
				t.Out = append(t.Out, pattern(at, min(n-at, streamChunk))...)
				if err := t.Flush(); err != nil {
					return used, 0, p.fail(t, err)
				}
			}
		default:
			switch err := p.serve(t, []byte(line)); err {
			case nil:
			case errHandedOver:
				return used, 0, nil
			default:
				return used, 0, err
			}
		}
	}
}

func (p streams) fail(t *engine.Turn, err error) error {
	if p.failed != nil {
		p.failed(t, err)
	}
	return err
}

// pattern returns n bytes from offset at, with few repetitions.
func pattern(at, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(uint32(at+i) * 2654435761 >> 13)
	}
	return b
}

// echoing answers a line with itself.
func echoing(t *engine.Turn, line []byte) error { return say(t, string(line)) }

// Streams work in both directions, and pipelined requests after them are served.
func TestStreams(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, streams{lines: lines{serve: echoing}})
		const size = 2<<20 + 7
		body := pattern(0, size)
		script := fmt.Sprintf("one\nput %d\n%stwo\nget %d\nthree\nput 3\nabcget 5\nfour\n", size, body, size)
		answer := fmt.Sprintf("one\n%08x\ntwo\n%sthree\n%08x\n%sfour\n", crc32.ChecksumIEEE(body), body, crc32.ChecksumIEEE([]byte("abc")), body[:5])
		var all sync.WaitGroup
		for range 4 {
			c := s.dial(t)
			all.Go(func() { io.WriteString(c, script) })
			all.Go(func() {
				got := make([]byte, len(answer))
				if n, err := io.ReadFull(c.r, got); string(got) != answer {
					t.Errorf("%d bytes of %d arrived (%v), or wrong ones", n, len(answer), err)
				}
			})
		}
		all.Wait()
	})
}

// While More waits, the peer already has the replies to its earlier requests: it may need
// them to continue. An unflushed part of the current reply is not among them, and can
// still be rolled back.
func TestMoreSendsEarlierAnswers(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, streams{lines: lines{serve: echoing}, waits: func(t *engine.Turn) {
			if len(t.Out) > 0 && bytes.HasSuffix(t.Out, []byte("part")) {
				panic("a test's panic")
			}
			t.Out = append(t.Out, "part"...)
		}})
		c := s.dial(t)
		c.send("one\nput 4\nab")
		c.want("one\n")
		c.send("cd")
		c.want(fmt.Sprintf("part%08x\n", crc32.ChecksumIEEE([]byte("abcd"))))
		c.send("two\nput 600\nab")
		c.want("two\n")
		c.send(strings.Repeat("x", 512))
		c.wantEnd(refusal(engine.Panicked))
	})
}

// A visit that waits for input gets the reason when it waits in vain.
func TestMoreSaysWhyNothingComes(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, test := range []struct {
			name  string
			begin string // of the upload
			do    func(s *server, c *client, conn engine.Conn)
			want  engine.Reason
			says  string
		}{
			{"the peer closes", "put 9\nab", func(_ *server, c *client, _ engine.Conn) {
				c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			}, engine.PeerClosed, ""},
			{"the peer is silent", "put 9\nab", func(*server, *client, engine.Conn) {}, engine.FrameTimeout, refusal(engine.FrameTimeout)},
			{"the peer is silent after a part of the answer", "part\nput 9\nab", func(*server, *client, engine.Conn) {}, engine.FrameTimeout, "part\n" + refusal(engine.FrameTimeout)},
			{"closed from here", "put 9\nab", func(_ *server, _ *client, conn engine.Conn) { conn.Close(engine.ClosedHere) }, engine.ClosedHere, ""},
			{"the server is closed", "put 9\nab", func(s *server, _ *client, _ engine.Conn) { go s.Close() }, engine.Forced, ""},
		} {
			t.Run(test.name, func(t *testing.T) {
				failed := make(chan error, 1)
				opened := make(chan engine.Conn, 1)
				s := serve(t, g, streams{lines: lines{serve: echoing}, failed: func(t *engine.Turn, err error) { failed <- err }}, func(s *engine.Server) {
					s.Limits.FrameTime = g.shortly(100 * time.Millisecond)
					s.Limits.FrameRate = 1 << 20
					s.Limits.LingerTime = 100 * time.Millisecond // OnClose comes after it
					if test.want != engine.FrameTimeout {
						s.Limits.FrameTime = -1
					}
					s.OnOpen = func(c engine.Conn) { opened <- c }
				})
				c := s.dial(t)
				c.send("hello\n")
				c.want("hello\n")
				c.send(test.begin)
				if !eventually(patience, func() bool { return s.Stats().BytesIn == uint64(len("hello\n"+test.begin)) }) {
					t.Fatal("the beginning does not arrive")
				}
				eventually(20*time.Millisecond, func() bool { return len(failed) > 0 }) // by then it mostly waits
				test.do(s, c, heard(t, opened, "OnOpen"))
				if err := heard(t, failed, "More fails"); err != test.want {
					t.Errorf("More returned %v, want %v", err, test.want)
				}
				s.ended(t, test.want)
				if test.want != engine.Forced {
					c.wantEnd(test.says)
				}
			})
		}
	})
}

// A peer that reads nothing of what is flushed has StallTime.
func TestFlushGivesUpOnAPeerThatDoesNotRead(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		failed := make(chan error, 1)
		s := serve(t, g, streams{lines: lines{serve: echoing}, failed: func(_ *engine.Turn, err error) { failed <- err }}, func(s *engine.Server) {
			s.Limits.StallTime = 200 * time.Millisecond
		})
		s.dial(t).send("get 1000000000\n")
		if err := heard(t, failed, "Flush fails"); err != engine.WriteStall {
			t.Errorf("Flush returned %v, want %v", err, engine.WriteStall)
		}
		s.ended(t, engine.WriteStall)
	})
}

// Pushes between two Flushes are neither torn nor lost.
func TestPushesBesideAStream(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		const records, pushes = 400, 1000
		record := strings.Repeat("r", 999) + "\n"
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			c := t.Conn()
			go func() {
				for i := range pushes {
					c.Push([]byte("push "), strconv.AppendInt(nil, int64(i), 10), []byte("\n"))
				}
			}()
			for range records {
				t.Out = append(t.Out, record...)
				if err := t.Flush(); err != nil {
					return err
				}
			}
			return nil
		}})
		c := s.dial(t)
		c.send("go\n")
		gotRecords, gotPushes := 0, 0
		for gotRecords < records || gotPushes < pushes {
			line, err := c.r.ReadString('\n')
			switch {
			case err != nil:
				t.Fatalf("after %d records and %d pushes: %v", gotRecords, gotPushes, err)
			case line == record:
				gotRecords++
			case line == fmt.Sprintf("push %d\n", gotPushes):
				gotPushes++
			default:
				t.Fatalf("a torn line: %.60q", line)
			}
		}
	})
}

// busyWriter posts during every write while wanted returns true.
type busyWriter struct {
	adapter
	wanted func() (post func())
}

func (c busyWriter) Write(p []byte) (int, error) {
	if post := c.wanted(); post != nil {
		post()
	}
	return c.adapter.Write(p)
}

// Flush waits for its own output, not for concurrent posts, which may have no end.
func TestFlushEndsBesideEndlessPushes(t *testing.T) {
	onEach(t, everywhere(func(g ground) bool { return g.network == overAdapter }), func(t *testing.T, g ground) {
		const records, enough = 20, 5_000_000 // a busy machine may keep the flush from a processor for long
		var to atomic.Pointer[engine.Conn]    // set while it flushes
		var pushes atomic.Int32
		wanted := func() func() {
			if c := to.Load(); c != nil && pushes.Add(1) < enough {
				return func() { c.Push([]byte("push\n")) }
			}
			return nil
		}
		s := serveOn(t, g, adapting{listen(t, overTCP), func(nc net.Conn) net.Conn { return busyWriter{adapter{nc}, wanted} }}, lines{serve: func(t *engine.Turn, line []byte) error {
			c := t.Conn()
			to.Store(&c)
			defer to.Store(nil)
			for range records {
				t.Out = append(t.Out, "record\n"...)
				if err := t.Flush(); err != nil {
					return err
				}
			}
			return say(t, "done")
		}})
		c := s.dial(t)
		c.send("go\n")
		came := 0
		for line := ""; line != "done\n"; {
			var err error
			if line, err = c.r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if line == "record\n" {
				came++
			}
		}
		if n := pushes.Load(); came != records || n >= enough {
			t.Errorf("%d records arrived with %d pushes, want %d with fewer than %d", came, n, records, enough)
		}
	})
}

// Posts after Hold follow the visit's output, even when that is sent in parts, and when
// other output was queued before.
func TestHoldKeepsThePushBehindTheAnswer(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			c := t.Conn()
			pushed := func(text string) {
				done := make(chan struct{})
				go func() { defer close(done); c.Push([]byte(text)) }()
				<-done
			}
			if string(line) == "after others" {
				pushed("others\n")
			}
			t.Hold()
			pushed("pushed\n")
			if string(line) == "twice" {
				t.Hold() // as the next message of the visit does
			}
			t.Out = append(t.Out, "wel"...)
			if string(line) == "in pieces" {
				if err := t.Flush(); err != nil {
					return err
				}
				pushed("again\n")
			}
			if string(line) == "slowly" {
				t.Leave()
				pushed("again\n")
			}
			t.Out = append(t.Out, "come\n"...)
			return nil
		}})
		for line, want := range map[string]string{
			"at once":      "welcome\npushed\n",
			"twice":        "welcome\npushed\n",
			"in pieces":    "welcome\npushed\nagain\n",
			"slowly":       "welcome\npushed\nagain\n",
			"after others": "others\nwelcome\npushed\n",
		} {
			c := s.dial(t)
			for range 3 {
				c.send(line + "\n")
				c.want(want)
			}
		}
	})
}

// Held posts beyond HardCap are not the peer's fault, even while the visit writes.
func TestHeldPushesAreNotThePeersFault(t *testing.T) {
	const hardCap, size = 64 << 10, 48 << 10
	push := strings.Repeat("p", size-1) + "\n"
	onEach(t, everywhere(func(g ground) bool { return g.network == overAdapter }), func(t *testing.T, g ground) {
		var to atomic.Pointer[engine.Conn] // set while it flushes
		wanted := func() func() {
			if c := to.Swap(nil); c != nil {
				return func() {
					if err := c.Push([]byte("last\n")); err != nil {
						t.Errorf("a push during a write: %v", err)
					}
				}
			}
			return nil
		}
		s := serveOn(t, g, adapting{listen(t, overTCP), func(nc net.Conn) net.Conn { return busyWriter{adapter{nc}, wanted} }}, lines{serve: func(t *engine.Turn, line []byte) error {
			c := t.Conn()
			t.Hold()
			for range 2 {
				if err := c.Push([]byte(push)); err != nil {
					return err
				}
			}
			to.Store(&c)
			t.Out = append(t.Out, "answer\n"...)
			if err := t.Flush(); err != nil {
				return err
			}
			return say(t, "done")
		}}, func(s *engine.Server) { s.Limits.HardCap = hardCap })
		c := s.dial(t)
		c.send("go\n")
		c.want("answer\ndone\n" + push + push + "last\n")
	})
}

// settlesLate sends an owed reply at the beginning of the visit that reads "put".
type settlesLate struct {
	streams
	owed chan engine.Reply
}

func (p settlesLate) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if bytes.HasPrefix(in, []byte("put")) {
		select {
		case r := <-p.owed:
			r.Send([]byte("late\n"))
		default:
		}
	}
	return p.streams.Advance(t, in)
}

// A visit that waits for input does not delay the reply to an earlier request, for which
// the peer may wait before it sends more.
func TestMoreLetsEarlierRepliesGo(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		owed := make(chan engine.Reply, 1)
		s := serve(t, g, settlesLate{streams{lines: lines{serve: func(t *engine.Turn, line []byte) error {
			owed <- t.Later()
			return nil
		}}}, owed}, func(s *engine.Server) { s.Limits.InFlight, s.Limits.FrameTime = 1, 2*time.Second })
		c := s.dial(t)
		c.send("later\n")
		if !eventually(patience, func() bool { return len(owed) > 0 }) {
			t.Fatal("the first request did not arrive")
		}
		c.send("put 3\n")
		c.want("late\n")
		c.send("abc")
		c.want(fmt.Sprintf("%08x\n", crc32.ChecksumIEEE([]byte("abc"))))
	})
}

// A second Hold in a visit releases nothing that the first has held: one visit may serve
// many messages.
func TestHoldTwice(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			c, done := t.Conn(), make(chan struct{})
			t.Hold()
			go func() { defer close(done); c.Push([]byte("pushed " + string(line) + "\n")) }()
			<-done
			return say(t, "welcome "+string(line))
		}})
		c := s.dial(t)
		c.send("1\n2\n3\n")
		welcome := map[string]bool{}
		for range 6 {
			line, err := c.r.ReadString('\n')
			kind, number, _ := strings.Cut(line, " ")
			if welcome[number] = welcome[number] || kind == "welcome"; err != nil || !welcome[number] {
				t.Fatalf("read %q, %v before the welcome", line, err)
			}
		}
	})
}

// lastGasp is an adapter whose read returns an error together with the bytes that end in a "!".
type lastGasp struct{ adapter }

func (l lastGasp) Read(p []byte) (n int, err error) {
	if n, err = l.adapter.Read(p); n > 0 && p[n-1] == '!' {
		err = errors.New("the connection has failed")
	}
	return n, err
}

// A visit that has all of its message is not told that the connection has failed behind it.
func TestErrorWithTheLastBytesOfAMessage(t *testing.T) {
	onEach(t, over(overAdapter), func(t *testing.T, g ground) {
		asked, got := make(chan struct{}, 1), make(chan string, 1)
		ln := adapting{listen(t, overTCP), func(nc net.Conn) net.Conn { return lastGasp{adapter{nc}} }}
		s := serveOn(t, g, ln, lines{serve: func(t *engine.Turn, line []byte) error {
			asked <- struct{}{}
			in, err := t.More(len(line)+1, 5)
			got <- fmt.Sprintf("%s %v", in, err)
			return errHandedOver
		}})
		c := s.dial(t)
		c.send("put\n")
		<-asked
		c.send("1234!")
		if got := <-got; got != "1234! <nil>" {
			t.Errorf("More returned %s", got)
		}
		s.ended(t, engine.PeerReset)
	})
}

// A panic in the middle of a reply resets the connection: a graceful close would look
// like the end of the reply. Before the first Flush a panic is handled as usual.
func TestPanicInAStream(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		var mu sync.Mutex
		var unserved []string
		p := streams{lines: lines{serve: func(t *engine.Turn, line []byte) error {
			t.Out = append(t.Out, "part"...)
			if string(line) == "flush and panic" {
				t.Flush()
			}
			if string(line) == "more and panic" {
				t.More(len(line)+1, 5)
			}
			t.Out = append(t.Out, "other part"...)
			panic("a test's panic")
		}}}
		s := serve(t, g, remembering{p, func(rest string) { mu.Lock(); unserved = append(unserved, rest); mu.Unlock() }})
		c := s.dial(t)
		c.send("flush and panic\nnext\n")
		got, err := io.ReadAll(c.r)
		if string(got) != "part" && string(got) != "" || g.network == overTCP && err == nil {
			t.Errorf("read %q and then %v, want at most the part that was flushed, and a reset", got, err)
		}
		s.ended(t, engine.Panicked)
		c = s.dial(t)
		before := s.Stats().BytesIn
		c.send("more and panic\n12")
		if !eventually(patience, func() bool { return s.Stats().BytesIn > before }) {
			t.Fatal("nothing has arrived")
		}
		c.send("345next\n")
		c.wantEnd(refusal(engine.Panicked))
		s.ended(t, engine.Panicked)
		mu.Lock()
		defer mu.Unlock()
		if len(unserved) != 1 || unserved[0] != "" {
			t.Errorf("Refuse got %q, want one call with nothing", unserved)
		}
	})
}

// After a Flush that sent only earlier replies, a panic is handled as usual: the peer has
// the earlier replies, and gets a refusal.
func TestPanicAfterAFlushOfOtherAnswers(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) != "panic" {
				return echoing(t, line)
			}
			t.Flush()
			t.Flush()
			t.Out = append(t.Out, "part"...)
			panic("a test's panic")
		}})
		c := s.dial(t)
		c.send("fine\npanic\n")
		c.wantEnd("fine\n" + refusal(engine.Panicked))
		s.ended(t, engine.Panicked)
	})
}

// remembering records what Refuse gets.
type remembering struct {
	streams
	refused func(unserved string)
}

func (p remembering) Refuse(dst, unserved []byte, why engine.Reason) []byte {
	p.refused(string(unserved))
	return p.streams.Refuse(dst, unserved, why)
}

// A lent connection is returned with the bytes that were read too far, repeatedly, and
// requests are served in between.
func TestLoans(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		const loans = 100
		s := serve(t, g, streams{lines: lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) != "lend" {
				return echoing(t, line)
			}
			t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
				for !bytes.Contains(unread, []byte("\n")) {
					var part [7]byte
					n, err := nc.Read(part[:])
					if unread = append(unread, part[:n]...); err != nil {
						return nil, false
					}
				}
				line, left, _ := bytes.Cut(unread, []byte("\n"))
				fmt.Fprintf(nc, "lent %s\n", line)
				return left, true
			})
			return errHandedOver
		}}})
		c := s.dial(t)
		go func() {
			for i := range loans {
				fmt.Fprintf(c, "a%d\nlend\nb%d\nput 2\nxyc%d\n", i, i, i)
			}
		}()
		for i := range loans {
			c.want(fmt.Sprintf("a%d\nlent b%d\n%08x\nc%d\n", i, i, crc32.ChecksumIEEE([]byte("xy")), i))
		}
		c.ask("push works", "push works")
		c.Close()
		s.ended(t, engine.PeerClosed)
	})
}

// While a connection is lent nothing can be posted to it, and its server can be closed.
func TestLoanEndsWithItsServer(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		lent, failed := make(chan engine.Conn, 1), make(chan error, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			conn := t.Conn()
			t.TakeOver(func(nc net.Conn, _ []byte) ([]byte, bool) {
				lent <- conn
				_, err := nc.Read(make([]byte, 1))
				failed <- err
				return nil, true
			})
			return errHandedOver
		}})
		s.dial(t).send("lend\n")
		conn := heard(t, lent, "the loan")
		if err := conn.Push([]byte("push")); err != engine.ErrClosed {
			t.Errorf("Push returned %v, want %v", err, engine.ErrClosed)
		}
		go s.Close()
		if err := heard(t, failed, "the read ends"); err == nil {
			t.Error("the read succeeded")
		}
		s.ended(t, engine.Forced)
	})
}

// A drain lets streams complete, in both directions.
func TestDrainWaitsForStreams(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, way := range []string{"up", "down"} {
			t.Run(way, func(t *testing.T) {
				s := serve(t, g, streams{lines: lines{serve: echoing}})
				c := s.dial(t)
				const size = 6 << 20 // more than the kernel's buffers hold
				body := pattern(0, size)
				if way == "up" {
					c.send(fmt.Sprintf("put %d\n%s", size, body[:size/2]))
				} else {
					c.send(fmt.Sprintf("get %d\n", size))
					c.want(string(body[:9]))
				}
				if !eventually(patience, func() bool { return s.Stats().BytesIn > 5 }) {
					t.Fatal("nothing has arrived")
				}
				done := s.drain(t)
				if way == "up" {
					c.send(string(body[size/2:]))
					c.want(fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(body)))
				} else {
					c.want(string(body[9:]))
				}
				c.want(refusal(engine.ShuttingDown))
				c.Close()
				inPeace(t, done, 1)
			})
		}
	})
}

// When a Shutdown's context ends, waiting visits end.
func TestForceEndsVisitsThatWait(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		failed, waits := make(chan error, 2), make(chan bool, 4)
		s := serve(t, g, streams{
			lines:  lines{serve: echoing},
			failed: func(_ *engine.Turn, err error) { failed <- err },
			waits:  func(*engine.Turn) { waits <- true },
		})
		s.dial(t).send("put 1000000\nabc")
		s.dial(t).send("get 1000000000\n")
		heard(t, waits, "the upload begins")
		if !eventually(patience, func() bool { return s.Stats().Open == 2 && s.Stats().BytesOut > 100_000 }) {
			t.Fatal("the streams did not start")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		got := heard(t, s.shutdown(ctx), "Shutdown returns")
		if got.Forced != 2 || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("Shutdown ended with %+v and %v, want 2 forced and the context's error", got.Drained, got.err)
		}
		for range 2 {
			if err := heard(t, failed, "a visit ends"); err != engine.Forced {
				t.Errorf("the visit got %v, want %v", err, engine.Forced)
			}
		}
	})
}

// A visit that has left its loop delays no others, in any mode.
func TestLeaveFreesTheLoop(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		block := newGate(t)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "block" {
				t.Leave()
				t.Leave()
				block.pass()
			}
			return echoing(t, line)
		}})
		var blocked []*client
		const many = 8 // some on every loop
		for range many {
			c := s.dial(t)
			c.send("block\nnext\n")
			heard(t, block.entered, "the handler")
			blocked = append(blocked, c)
			s.dial(t).ask("others", "others")
		}
		if n := s.Stats().HandOffs; n >= many { // a busy machine makes some
			t.Errorf("%d visits that left count as %d hand-offs", many, n)
		}
		block.open()
		for _, c := range blocked {
			c.want("block\nnext\n")
		}
	})
}

// endsWithData returns the end of the input together with the last bytes, which are
// "last\n", as TLS does.
type endsWithData struct{ adapter }

func (c endsWithData) Read(p []byte) (n int, err error) {
	if n, err = c.adapter.Read(p); bytes.HasSuffix(p[:n], []byte("last\n")) {
		err = io.EOF
	}
	return n, err
}

// Data that comes together with the end of the input is served, also when a visit has
// waited for some of it, and when flow control does not allow all of it to be served at
// once.
func TestDataThatComesWithTheEnd(t *testing.T) {
	onEach(t, everywhere(func(g ground) bool { return g.network == overAdapter }), func(t *testing.T, g ground) {
		ln := listen(t, overTCP)
		s := serveOn(t, g, adapting{ln, func(nc net.Conn) net.Conn { return endsWithData{adapter{nc}} }}, streams{lines: lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "later" {
				r := t.Later()
				go r.Send([]byte("late\n"))
				return nil
			}
			return echoing(t, line)
		}}}, func(s *engine.Server) { s.Limits.InFlight = 1 })
		for _, test := range []struct{ begin, rest, want string }{
			{"put 3\na", "bcnext\nlast\n", fmt.Sprintf("%08x\nnext\nlast\n", crc32.ChecksumIEEE([]byte("abc")))},
			{"first\n", "later\nlater\nlast\n", "first\nlate\nlate\nlast\n"},
		} {
			c := s.dial(t)
			before := s.Stats().BytesIn
			c.send(test.begin)
			if !eventually(patience, func() bool { return s.Stats().BytesIn == before+uint64(len(test.begin)) }) {
				t.Fatal("the beginning does not arrive")
			}
			c.send(test.rest)
			c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			c.wantEnd(test.want)
			s.ended(t, engine.PeerClosed)
		}
	})
}

// halfReplies is a protocol that sends a part of its reply, closes the connection and then
// waits for input.
type halfReplies struct{ lines }

func (halfReplies) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if len(in) == 0 || !t.Room() {
		return 0, 1, nil
	}
	t.Mark(0)
	t.Out = append(t.Out, "part"...)
	if err := t.Flush(); err != nil {
		return 0, 0, err
	}
	t.Conn().Close(engine.IdleTimeout)
	_, err = t.More(len(in), 1)
	return 0, 0, err
}

// A connection that ends in the middle of a reply is not refused: the peer would read the
// refusal as the rest of the reply.
func TestNoRefusalWithinAReply(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, halfReplies{})
		c := s.dial(t)
		c.send("ask")
		if got, _ := io.ReadAll(c.r); string(got) != "part" {
			t.Errorf("read %q, want only the part that was sent", got)
		}
		c.Close()
		s.ended(t, engine.IdleTimeout)
	})
}

// A panic in the middle of a reply destroys none of those before it: the connection is
// reset when the peer has received them, however slowly it reads, and not before.
func TestPanicInAStreamLeavesEarlierReplies(t *testing.T) {
	const size, whole = 100 << 10, 5
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			t.Out = append(t.Out, strings.Repeat("x", size)...)
			if string(line) == "panic" {
				t.Hold()
				t.Flush()
				t.Conn().Push([]byte("a push after the part"))
				panic("a test's")
			}
			return nil
		}})
		c := s.dial(t)
		c.send(strings.Repeat("whole\n", whole) + "panic\nnever served\n")
		if !eventually(patience, func() bool { return s.Stats().BytesOut > 0 }) {
			t.Fatal("nothing was sent")
		}
		got := make([]byte, size)
		read := 0
		for piece := 16 << 10; ; { // slowly at first
			if read < 4*piece {
				<-time.After(100 * time.Millisecond)
			}
			n, err := c.r.Read(got[:piece])
			if i := strings.Trim(string(got[:n]), "x"); i != "" {
				t.Fatalf("read %q in the middle of a reply", i)
			}
			if read += n; err != nil {
				if g.network == overTCP && errors.Is(err, io.EOF) {
					t.Errorf("the connection ended with %v, want a reset", err)
				}
				break
			}
		}
		if read < whole*size || read > (whole+1)*size {
			t.Errorf("%d bytes arrived, want the %d of the whole replies and at most as many as one more has", read, whole*size)
		}
		s.ended(t, engine.Panicked)
	})
}

// A peer that reads nothing does not keep an unfinished reply for ever.
func TestUnfinishedReplyOfAPeerThatDoesNotRead(t *testing.T) {
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			t.Out = append(t.Out, make([]byte, 32<<10)...)
			t.Flush()
			panic("a test's")
		}}, func(s *engine.Server) { s.Limits.StallTime = 100 * time.Millisecond })
		c := s.dial(t)
		c.Conn.(*net.TCPConn).SetReadBuffer(1)
		c.send("panic\n")
		s.ended(t, engine.Panicked)
	})
}
