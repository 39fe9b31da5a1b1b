// Package prove kills a honed under load with kill -9 and compares its log with what it has acknowledged.
package prove

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/tool/child"
)

// Options say what to prove. All but Progress are required.
type Options struct {
	Honed    string // the program
	Folder   string // of its log, empty or new
	Messages int
	Clients  int
	Window   int // messages in flight per client
	Size     int // of a message in bytes, at least MinSize
	Kills    int // evenly spread over the messages
	Progress func(acknowledged int)
}

// MinSize is the size of the smallest message that no other one equals.
const MinSize = 16

// Result says what was submitted, stored and missing.
type Result struct {
	Messages     int     `json:"messages"`
	Acknowledged uint64  `json:"acknowledged"`
	Kills        int     `json:"kills"`
	Resent       uint64  `json:"resent"`
	Stored       uint64  `json:"stored"`
	Lost         uint64  `json:"lost"`
	Twice        uint64  `json:"twice"`
	OutOfOrder   uint64  `json:"out_of_order"`
	Wrong        uint64  `json:"wrong"` // stored with other content than submitted
	Seconds      float64 `json:"seconds"`
	PerSecond    float64 `json:"acknowledged_per_second"`
}

// Holds reports whether the log has what was acknowledged, once and in order.
func (r *Result) Holds() bool { return r.Lost+r.Twice+r.OutOfOrder+r.Wrong == 0 }

// Run starts honed, submits all messages, kills and restarts it meanwhile, and reads its log at the end.
func Run(ctx context.Context, o Options) (r Result, err error) {
	v := victim{Options: &o}
	addr, err := v.start(ctx, "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	defer func() { v.kill() }()
	began := time.Now()
	if r, err = o.submit(ctx, addr, func() error { v.kill(); _, err := v.start(ctx, addr); return err }); err != nil {
		return r, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.PerSecond = float64(r.Acknowledged) / r.Seconds
	v.kill()
	log, err := journal.OpenReader(o.Folder, nil)
	if err != nil {
		return r, err
	}
	defer log.Close()
	return r, o.verify(ctx, log, &r)
}

// submit runs all clients, each with its share of the messages, and restarts the honed meanwhile.
func (o *Options) submit(ctx context.Context, addr string, restart func() error) (r Result, err error) {
	r.Messages = o.Messages
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var acked, failed atomic.Uint64
	due := make(chan struct{}, o.Kills)
	every := uint64(max(o.Messages/(o.Kills+1), 1))
	done := func(_ uint64, err error) {
		if err != nil {
			failed.Add(1)
			return
		}
		n := acked.Add(1)
		if n%every == 0 && n/every <= uint64(o.Kills) {
			due <- struct{}{}
		}
		if n%1000 == 0 && o.Progress != nil {
			o.Progress(int(n))
		}
	}
	clients, ends := make([]*gateway.Client, o.Clients), make(chan error, o.Clients)
	for i := range clients {
		clients[i] = &gateway.Client{Addrs: []string{addr}, ID: name(i), Window: o.Window}
		go func() { ends <- o.feed(ctx, clients[i], i, done) }()
	}
	for left := o.Clients; left > 0; {
		var failure error
		select {
		case <-due:
			if r.Kills++; err == nil {
				failure = restart()
			}
		case failure = <-ends:
			left--
		}
		if failure != nil && err == nil {
			err = failure
			cancel()
		}
	}
	for _, c := range clients {
		r.Resent += c.Stats().Resent
	}
	r.Acknowledged = acked.Load()
	if err == nil && failed.Load() > 0 {
		err = fmt.Errorf("%d messages failed", failed.Load())
	}
	return r, err
}

// feed submits the messages of one client: one of each o.Clients.
func (o *Options) feed(ctx context.Context, c *gateway.Client, which int, done func(uint64, error)) (err error) {
	data := make([]byte, o.Size)
	for n := which; n < o.Messages && err == nil; n += o.Clients {
		fill(data, uint64(n))
		_, err = c.SubmitAsync(ctx, data, done)
	}
	if err != nil { // Close then waits for nothing
		ended, cancel := context.WithCancel(ctx)
		cancel()
		c.Close(ended)
		return err
	}
	return c.Close(ctx)
}

func name(client int) string { return fmt.Sprintf("client-%d", client) }

// fill makes the bytes of message n, which no other message has.
func fill(data []byte, n uint64) {
	binary.BigEndian.PutUint64(data, n)
	stream := rand.NewPCG(n, 1)
	for i := 8; i < len(data); i++ {
		data[i] = byte(stream.Uint64())
	}
}

// verify reads the log and counts what is lost, twice, out of order or wrong.
func (o *Options) verify(ctx context.Context, log journal.Reader, r *Result) error {
	seen, newest, want := make([]bool, o.Messages), map[string]uint64{}, make([]byte, o.Size)
	err := log.Read(ctx, 0, func(pos uint64, envelope []byte) error {
		e, err := journal.DecodeAt(pos, envelope)
		if err != nil {
			return err
		}
		for m := range e.Records() {
			r.Stored++
			n := uint64(o.Messages)
			if len(m.Data) == o.Size {
				n = binary.BigEndian.Uint64(m.Data)
			}
			if n >= uint64(o.Messages) {
				r.Wrong++
				continue
			}
			if fill(want, n); !bytes.Equal(want, m.Data) || m.Client != name(int(n)%o.Clients) {
				r.Wrong++
			}
			if seen[n] {
				r.Twice++
			}
			if before, ok := newest[m.Client]; ok && n < before {
				r.OutOfOrder++
			}
			seen[n], newest[m.Client] = true, n
		}
		return nil
	})
	for _, is := range seen {
		if !is {
			r.Lost++
		}
	}
	return err
}

// victim is the process that is killed.
type victim struct {
	*Options
	process *child.Child // nil: none runs
}

// start starts a honed and returns its address. It takes at most startTime.
func (v *victim) start(ctx context.Context, listen string) (addr string, err error) {
	cmd := exec.CommandContext(ctx, v.Honed, "serve", "--json", "--until-eof", "--admin", "off", "--data", v.Folder, "--listen", listen)
	if v.process, err = child.Start(cmd, child.Options{}); err != nil {
		return "", err
	}
	var ready struct{ Listen []string }
	err = v.process.Answer(ctx, startTime, &ready)
	if err == nil && len(ready.Listen) != 1 {
		err = fmt.Errorf("%s does not say where it listens: %s", v.Honed, v.process.Said())
	}
	if err != nil {
		v.kill()
		return "", err
	}
	return ready.Listen[0], nil
}

const startTime = time.Minute

func (v *victim) kill() {
	if v.process != nil {
		v.process.Kill()
		v.process.Stop()
		v.process = nil
	}
}
