package journal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// direct appends to a stream of a JetStream server in this process without a client. A message
// that a client publishes is copied five times and passes through seven goroutines: in a gateway
// that was 970 instructions a record of 128 B instead of 230, and twice the server's CPU time
// (make bench-gateway). The server does not export such a function, hence go:linkname.
type direct struct {
	stream  unsafe.Pointer
	jobs    chan job
	results chan error
	timer   *time.Timer
	ended   sync.WaitGroup
}

// job is one envelope to append.
type job struct {
	header, envelope []byte
	pos              uint64
}

// directVersion is the version of nats-server whose functions are declared here. With any other
// version, envelopes go through a client. TestDirectDeclarations compares the declarations with
// the server's source.
const directVersion = "2.15.2"

//go:linkname lookupStream github.com/nats-io/nats-server/v2/server.(*Account).lookupStream
func lookupStream(a *server.Account, name string) (unsafe.Pointer, error)

//go:linkname processJetStreamMsg github.com/nats-io/nats-server/v2/server.(*stream).processJetStreamMsg
func processJetStreamMsg(mset unsafe.Pointer, subject, reply string, hdr, msg []byte, lseq uint64, ts int64, mt unsafe.Pointer, sourced bool, needIsolation bool) error

//go:linkname lastSeq github.com/nats-io/nats-server/v2/server.(*stream).lastSeq
func lastSeq(mset unsafe.Pointer) uint64

// openDirect finds the stream. It returns nil for a server of another version.
func openDirect(s *server.Server, name string) (*direct, error) {
	if server.VERSION != directVersion {
		return nil, nil
	}
	found, err := lookupStream(s.GlobalAccount(), name)
	if err != nil {
		return nil, err
	}
	d := &direct{stream: found, jobs: make(chan job), results: make(chan error, 1), timer: time.NewTimer(0)}
	d.ended.Go(func() {
		for j := range d.jobs {
			err := processJetStreamMsg(d.stream, subject+"."+name, "", j.header, j.envelope, 0, 0, nil, false, true)
			if last := lastSeq(d.stream); err == nil && last != j.pos { // a stream that is closing returns no error
				err = fmt.Errorf("the stream ends at %d and should end at %d", last, j.pos)
			}
			d.results <- err
		}
	})
	return d, nil
}

var errTimeout = errors.New("timeout: JetStream does not answer")

// append stores an envelope at position pos and nowhere else. After an error the outcome is
// unknown, JetStream may still read the envelope, and append must not be called again.
func (d *direct) append(ctx context.Context, envelope []byte, pos uint64, patience time.Duration) error {
	header := append(make([]byte, 0, 80), "NATS/1.0\r\n"+jetstream.ExpectedLastSeqHeader+": "...)
	header = append(strconv.AppendUint(header, pos-1, 10), "\r\n\r\n"...)
	d.timer.Reset(patience)
	d.jobs <- job{header, envelope, pos}
	select {
	case err := <-d.results:
		d.timer.Stop()
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.timer.C:
		return errTimeout
	}
}

// close waits for a running job.
func (d *direct) close() {
	close(d.jobs)
	d.ended.Wait()
	d.timer.Stop()
}
