package engine_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

var (
	tlsSeed  = flag.Uint64("tls-seed", 0, "TestTLSRecords: first seed; 0: random")
	tlsSteps = flag.Int("tls-steps", 0, "TestTLSRecords: steps of all clients together")
	tlsCrowd = flag.Int("tls-crowd", 8, "TestTLSRecords: clients at a time")
)

// TestTLSRecords plays clients that control every record and every segment: they split requests into
// records and records into segments, update keys, also in the middle of everything, stop reading,
// send empty records and close their side with and without a FIN. The server answers at once, late,
// in pieces with Flush, after More, and on loan, and pushes. Each client must get every answer that
// it is owed, whole and once, and at the end a close_notify.
func TestTLSRecords(t *testing.T) {
	t.Parallel()
	seed, steps := *tlsSeed, *tlsSteps
	if seed == 0 {
		seed = rand.Uint64N(1e9)
	}
	if steps == 0 {
		steps = testrun.Sized(6_000, 100_000)
	}
	for _, g := range loopsOverTLS() {
		t.Run(g.String(), func(t *testing.T) {
			s := serve(t, g, lines{serve: answerRecord}, func(s *engine.Server) {
				s.Limits.StallTime, s.Limits.FrameTime, s.Limits.HardCap = -1, time.Minute, -1
			})
			var played, lives atomic.Int64
			var workers sync.WaitGroup
			for range *tlsCrowd {
				workers.Go(func() {
					for int(played.Load()) < steps/3 && !t.Failed() {
						life := uint64(lives.Add(1))
						p := &recordPlayer{Rand: rand.New(rand.NewPCG(seed, life)), owed: map[int]int{}}
						p.listens.L = &p.mu
						n, err := p.play(s.addr)
						played.Add(int64(n))
						if err != nil {
							t.Errorf("seed %d, life %d: %v; the server has ended connections for %v", seed, life, err, s.Stats().Ended)
						}
					}
				})
			}
			workers.Wait()
			t.Logf("seed %d: %d steps of %d connections", seed, played.Load(), lives.Load())
		})
	}
}

// answerRecord serves "verb id size padding".
func answerRecord(t *engine.Turn, line []byte) error {
	f := strings.Fields(string(line))
	id, _ := strconv.Atoi(f[1])
	size, _ := strconv.Atoi(f[2])
	c := t.Conn()
	if c.Unsent() < 0 {
		return engine.Malformed
	}
	switch f[0] {
	case "now":
		t.Out = append(t.Out, answerTo(id, size)...)
	case "push": // before the answer, which is late
		r := t.Later()
		go func() {
			for range 3 {
				c.Push(answerTo(0, size))
			}
			r.Send(answerTo(id, size))
		}()
	case "later":
		r := t.Later()
		go r.Send(answerTo(id, size))
	case "flush":
		t.Hold() // pushes must not come between the pieces
		all := answerTo(id, size)
		for len(all) > 0 {
			n := min(len(all), 1+size/3)
			t.Out = append(t.Out, all[:n]...)
			all = all[n:]
			if err := t.Flush(); err != nil {
				return err
			}
		}
	case "lend":
		t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
			_, err := nc.Write(answerTo(id, size))
			var p [100]byte
			for err == nil && !bytes.Contains(unread, []byte("back\n")) {
				var n int
				n, err = nc.Read(p[:])
				unread = append(unread, p[:n]...)
			}
			_, rest, back := bytes.Cut(unread, []byte("back\n"))
			return rest, back
		})
		return errHandedOver
	}
	return nil
}

func answerTo(id, size int) []byte {
	return append(fmt.Appendf(make([]byte, 0, 20+size), "%d %d\n", id, size), bodyOf(id, size)...)
}

// bodyOf is what follows the first line of an answer.
func bodyOf(id, size int) []byte { return bodies()[id%26][:size] }

var bodies = sync.OnceValue(func() (all [26][]byte) {
	for i := range all {
		all[i] = bytes.Repeat([]byte{byte('a' + i)}, 70_000)
	}
	return all
})

// recordPlayer is a client.
type recordPlayer struct {
	*rand.Rand
	raw     *rawTLS
	asked   int
	asks    int // key updates that ask for one
	mu      sync.Mutex
	owed    map[int]int // size by id
	deaf    bool
	listens sync.Cond // deaf has changed
	heard   []byte
}

// play lives a connection's life.
func (p *recordPlayer) play(addr net.Addr) (steps int, err error) {
	nc, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience)) // for the handshake
	if p.IntN(2) == 0 {
		nc.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
	if p.raw, err = newRawTLS(nc); err != nil {
		return 0, err
	}
	read := make(chan error, 1)
	go func() { read <- p.listen() }()
	for most := 20 + p.IntN(60); steps < most; steps++ {
		if err = p.step(); err != nil {
			break
		}
	}
	p.setDeaf(false)
	if err == nil && p.IntN(8) == 0 { // it leaves without a word
		nc.(*net.TCPConn).SetLinger(p.IntN(2) - 1)
		nc.Close()
		<-read
		return steps, nil
	}
	if err == nil {
		var end []byte
		if p.IntN(2) == 0 { // together with the last request
			end = p.request("now")
		}
		if err = p.write(append(end, p.raw.seal(alertRecord, []byte{1, 0})...)); err == nil && p.IntN(2) == 0 {
			nc.(*net.TCPConn).CloseWrite()
		}
	}
	got := <-read
	if got == io.EOF {
		got = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil || got != nil:
		return steps, fmt.Errorf("writing: %v; reading: %v; %d of %d answers are missing", err, got, len(p.owed), p.asked)
	case len(p.owed) > 0:
		return steps, fmt.Errorf("the end came before the answers to %v of %d", p.owed, p.asked)
	case p.raw.updates > p.asks || p.asks > 0 && p.raw.updates == 0:
		return steps, fmt.Errorf("%d key updates for %d that were asked for", p.raw.updates, p.asks)
	}
	return steps, nil
}

func (p *recordPlayer) setDeaf(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
	p.listens.Broadcast()
}

// step does something.
func (p *recordPlayer) step() error {
	switch p.IntN(12) {
	case 0:
		p.setDeaf(p.IntN(2) == 0)
		return nil
	case 1:
		asks := p.IntN(2) == 0
		if asks {
			p.asks++
		}
		return p.write(p.raw.keyUpdate(asks, 1+p.IntN(5)))
	case 2:
		return p.write(p.raw.seal(dataRecord, nil))
	case 3:
		all := p.request("lend")
		for range p.IntN(3) {
			all = append(all, p.records([]byte("nothing\n"))...)
		}
		all = append(all, p.records([]byte("back\n"))...)
		if p.IntN(2) == 0 { // the borrower's connection may read it too
			all = append(all, p.request("now")...)
		}
		return p.write(all)
	default:
		var all []byte
		for range 1 + p.IntN(4) {
			all = append(all, p.request([]string{"now", "push", "later", "flush"}[p.IntN(4)])...)
			if p.IntN(6) == 0 {
				p.asks++
				all = append(all, p.raw.keyUpdate(true, 5)...)
			}
		}
		return p.write(all)
	}
}

// request returns the records of a request.
func (p *recordPlayer) request(verb string) []byte {
	p.asked++
	size := []int{0, 0, 10, 10, 10, 1000, 1000, 1000, 20_000, 70_000}[p.IntN(10)]
	p.mu.Lock()
	p.owed[p.asked] = size
	p.mu.Unlock()
	return p.records(fmt.Appendf(nil, "%s %d %d %s\n", verb, p.asked, size, strings.Repeat("x", p.IntN(3)*p.IntN(3000))))
}

// records seals content in records of random sizes.
func (p *recordPlayer) records(content []byte) (all []byte) {
	for most := 1 + p.IntN(4000); len(content) > 0; {
		n := min(len(content), 1+p.IntN(most))
		all = append(all, p.raw.seal(dataRecord, content[:n])...)
		content = content[n:]
	}
	return all
}

// write sends bytes in random segments. A client that does not read may have to.
func (p *recordPlayer) write(all []byte) error {
	for most := 1 + p.IntN(1+2*len(all)); len(all) > 0; {
		n := min(len(all), 1+p.IntN(most))
		p.raw.nc.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		m, err := p.raw.nc.Write(all[:n])
		all = all[m:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.setDeaf(false)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listen reads and checks answers, until the end.
func (p *recordPlayer) listen() error {
	for {
		p.mu.Lock()
		for p.deaf {
			p.listens.Wait()
		}
		p.mu.Unlock()
		data, err := p.raw.open()
		if err != nil {
			return err
		}
		p.heard = append(p.heard, data...)
		if err := p.check(); err != nil {
			return err
		}
	}
}

// check takes whole answers from what was heard.
func (p *recordPlayer) check() error {
	for {
		end := bytes.IndexByte(p.heard, '\n')
		if end < 0 {
			return nil
		}
		var id, size int
		if _, err := fmt.Sscanf(string(p.heard[:end]), "%d %d", &id, &size); err != nil {
			return fmt.Errorf("the answer %.60q: %w", p.heard, err)
		}
		if len(p.heard) < end+1+size {
			return nil
		}
		if body := p.heard[end+1:][:size]; !bytes.Equal(body, bodyOf(id, size)) {
			return fmt.Errorf("answer %d is not what was sent", id)
		}
		p.heard = append(p.heard[:0], p.heard[end+1+size:]...)
		p.mu.Lock()
		owed, known := p.owed[id]
		delete(p.owed, id)
		p.mu.Unlock()
		if id != 0 && (!known || owed != size) {
			return fmt.Errorf("answer %d, of %d bytes, is not owed", id, size)
		}
	}
}
