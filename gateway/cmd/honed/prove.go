package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
)

// proveFlags are the flags of honed prove.
type proveFlags struct {
	messages, clients, window, size, kills int
	keep                                   string
	level                                  gateway.Level
	json                                   bool
	within                                 time.Duration // time to spread the messages over; 0: as fast as possible
}

// proof is the result of honed prove.
type proof struct {
	Messages     uint64  `json:"messages"`
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

func prove(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f proveFlags
	flags, config := commandline.New("honed prove")
	flags.IntVar(&f.messages, "messages", 1_000_000, "how many messages to submit")
	flags.IntVar(&f.clients, "clients", 4, "how many clients submit them")
	flags.IntVar(&f.window, "window", 256, "messages in flight per client")
	flags.IntVar(&f.size, "size", 128, "size of a message in `BYTES`, at least 16")
	flags.IntVar(&f.kills, "kills", 1, "how many times to kill the gateway with kill -9, evenly spread")
	flags.StringVar(&f.keep, "keep", "", "use this `FOLDER` for the log, and keep it")
	flags.TextVar(&f.level, "level", gateway.Disk, "durability level: disk, or received, which must lose messages")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if f.messages < 1 || f.clients < 1 || f.size < 16 || f.kills < 0 {
		return commandline.UsageError{Err: errors.New("prove needs at least 1 message of 16 bytes and 1 client")}
	}
	dir := f.keep
	if dir == "" {
		made, err := os.MkdirTemp("", "honed-prove-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		dir = filepath.Join(made, "log")
	}
	result, err := f.run(ctx, dir, stderr)
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	return result.print(f.json, stdout)
}

func (f *proveFlags) run(ctx context.Context, dir string, stderr io.Writer) (p *proof, err error) {
	gw := &victim{dir: dir, stderr: stderr}
	if err := gw.start(ctx, "127.0.0.1:0"); err != nil {
		return nil, err
	}
	defer gw.kill()
	p = &proof{Messages: uint64(f.messages)}
	began := time.Now()
	if err := f.submit(ctx, gw, p, stderr); err != nil {
		return nil, err
	}
	p.Seconds = time.Since(began).Seconds()
	p.PerSecond = float64(p.Acknowledged) / p.Seconds
	gw.kill()
	fmt.Fprintln(stderr, "reading the log back")
	log, err := journal.OpenReader(dir, nil)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return p, f.verify(ctx, log, p)
}

// submit runs all clients, each with its share of the messages, and kills the gateway
// meanwhile.
func (f *proveFlags) submit(ctx context.Context, gw *victim, p *proof, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var acked, failed atomic.Uint64
	halts := make(chan struct{}, f.kills) // one value for each kill that is due
	every := uint64(f.messages / (f.kills + 1))
	watch := &progress{out: stderr, what: "acknowledged", unit: "messages"}
	var watching sync.Mutex
	done := func(_ uint64, err error) {
		if err != nil {
			failed.Add(1)
			return
		}
		n := acked.Add(1)
		if every > 0 && n%every == 0 && n/every <= uint64(f.kills) {
			halts <- struct{}{}
		}
		if n%1000 == 0 && watching.TryLock() {
			watch.set(n, uint64(f.messages))
			watching.Unlock()
		}
	}
	clients := make([]*gateway.Client, f.clients)
	ends := make(chan error, f.clients)
	for i := range clients {
		clients[i] = &gateway.Client{Addrs: []string{gw.addr}, ID: clientName(i), Window: f.window, Level: f.level}
		go func() { ends <- f.feed(ctx, clients[i], i, done) }()
	}
	var err error
	for left := f.clients; left > 0; {
		select {
		case <-halts:
			if err == nil {
				if err = gw.restart(ctx); err != nil {
					cancel()
				}
				p.Kills++
			}
		case ended := <-ends:
			left--
			if ended != nil && err == nil {
				err = ended
				cancel()
			}
		}
	}
	for _, c := range clients {
		p.Resent += c.Stats().Resent
	}
	p.Acknowledged = acked.Load()
	if err == nil && failed.Load() > 0 {
		err = fmt.Errorf("prove: %d messages failed", failed.Load())
	}
	return err
}

// feed submits the messages of one client: every f.clients-th.
func (f *proveFlags) feed(ctx context.Context, c *gateway.Client, which int, done func(uint64, error)) error {
	data := make([]byte, f.size)
	began := time.Now()
	for n := which; n < f.messages; n += f.clients {
		if f.within > 0 && n/f.clients%64 == 0 {
			due := time.Duration(float64(f.within) * float64(n) / float64(f.messages))
			select {
			case <-time.After(due - time.Since(began)):
			case <-ctx.Done():
			}
		}
		fill(data, uint64(n))
		if _, err := c.SubmitAsync(ctx, data, done); err != nil {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			c.Close(ended)
			return err
		}
	}
	return c.Close(ctx)
}

func clientName(which int) string { return fmt.Sprintf("client-%d", which) }

// fill makes the bytes of message n, which no other message has.
func fill(data []byte, n uint64) {
	binary.BigEndian.PutUint64(data, n)
	stream := rand.NewPCG(n, 1)
	for i := 8; i < len(data); i++ {
		data[i] = byte(stream.Uint64())
	}
}

// verify reads the log and counts what is lost, twice, out of order or wrong.
func (f *proveFlags) verify(ctx context.Context, log journal.Reader, p *proof) error {
	seen := make([]bool, f.messages)
	newest := map[string]uint64{}
	want := make([]byte, f.size)
	first, _, err := log.Bounds()
	if err != nil {
		return err
	}
	err = log.Read(ctx, first, func(pos uint64, envelope []byte) error {
		e, err := journal.DecodeAt(pos, envelope)
		if err != nil {
			return err
		}
		for r := range e.Records() {
			p.Stored++
			n := uint64(f.messages)
			if len(r.Data) == f.size {
				n = binary.BigEndian.Uint64(r.Data)
			}
			if n >= uint64(f.messages) {
				p.Wrong++
				continue
			}
			if fill(want, n); !bytes.Equal(want, r.Data) || r.Client != clientName(int(n)%f.clients) {
				p.Wrong++
			}
			if seen[n] {
				p.Twice++
			}
			if before, ok := newest[r.Client]; ok && n < before {
				p.OutOfOrder++
			}
			seen[n], newest[r.Client] = true, n
		}
		return nil
	})
	for _, is := range seen {
		if !is {
			p.Lost++
		}
	}
	return err
}

func (p *proof) print(asJSON bool, stdout io.Writer) error {
	if asJSON {
		if err := json.NewEncoder(stdout).Encode(p); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(stdout, "%d messages submitted, %d acknowledged in %.1f s (%.0f/s), gateway killed %d times, %d resent\n"+
			"%d records in the log: %d lost, %d stored twice, %d out of order, %d wrong\n",
			p.Messages, p.Acknowledged, p.Seconds, p.PerSecond, p.Kills, p.Resent,
			p.Stored, p.Lost, p.Twice, p.OutOfOrder, p.Wrong)
	}
	if p.Lost+p.Twice+p.OutOfOrder+p.Wrong > 0 {
		return errors.New("prove: the log does not match the acknowledgements")
	}
	return nil
}

// victim is the honed process that prove kills.
type victim struct {
	dir    string
	addr   string
	stderr io.Writer
	cmd    *exec.Cmd
	stdin  io.Closer // its EOF ends the child if this process dies
}

func (v *victim) start(ctx context.Context, listen string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"serve", "--json", "--until-eof", "--admin", "off", "--data", v.dir, "--listen", listen}
	v.cmd = exec.CommandContext(ctx, self, args...)
	var said bytes.Buffer
	v.cmd.Stderr = &said
	stdin, err := v.cmd.StdinPipe()
	if err != nil {
		return err
	}
	v.stdin = stdin
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := v.cmd.Start(); err != nil {
		return err
	}
	var ready struct{ Listen []string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || len(ready.Listen) != 1 {
		v.kill()
		return fmt.Errorf("the gateway did not start: %s", bytes.TrimSpace(said.Bytes()))
	}
	v.addr = ready.Listen[0]
	return nil
}

func (v *victim) kill() {
	if v.cmd == nil {
		return
	}
	v.cmd.Process.Kill()
	v.cmd.Wait()
	v.stdin.Close()
	v.cmd = nil
}

func (v *victim) restart(ctx context.Context) error {
	v.kill()
	return v.start(ctx, v.addr)
}
