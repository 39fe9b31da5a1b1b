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

// direct appends to a stream of a JetStream server in this process without a client. What a
// client publishes is copied five times and passed on by seven goroutines: behind a gateway
// that was 970 instructions a record of 128 B instead of 230, and twice the server's CPU time
// (make bench-gateway). The server exports no such call, so this takes it by its name.
type direct struct {
	stream  unsafe.Pointer
	jobs    chan job
	results chan error
	patient *time.Timer
	ended   sync.WaitGroup
}

// job is one envelope on its way.
type job struct {
	header, envelope []byte
	pos              uint64
}

// directVersion is the version of nats-server whose functions are declared here. Any other gets
// its messages through a client. TestDirectDeclarations compares the declarations with its source.
const directVersion = "2.15.2"

//go:linkname lookupStream github.com/nats-io/nats-server/v2/server.(*Account).lookupStream
func lookupStream(a *server.Account, name string) (unsafe.Pointer, error)

//go:linkname processJetStreamMsg github.com/nats-io/nats-server/v2/server.(*stream).processJetStreamMsg
func processJetStreamMsg(mset unsafe.Pointer, subject, reply string, hdr, msg []byte, lseq uint64, ts int64, mt unsafe.Pointer, sourced bool, needIsolation bool) error

//go:linkname lastSeq github.com/nats-io/nats-server/v2/server.(*stream).lastSeq
func lastSeq(mset unsafe.Pointer) uint64

// openDirect finds the stream. There is none for a server of another version.
func openDirect(s *server.Server, name string) (*direct, error) {
	if server.VERSION != directVersion {
		return nil, nil
	}
	found, err := lookupStream(s.GlobalAccount(), name)
	if err != nil {
		return nil, err
	}
	d := &direct{stream: found, jobs: make(chan job), results: make(chan error, 1), patient: time.NewTimer(0)}
	d.ended.Go(func() {
		for j := range d.jobs {
			err := processJetStreamMsg(d.stream, subject+"."+name, "", j.header, j.envelope, 0, 0, nil, false, true)
			if last := lastSeq(d.stream); err == nil && last != j.pos { // of a stream that ends, it says nothing
				err = fmt.Errorf("the stream ends at %d, and should at %d", last, j.pos)
			}
			d.results <- err
		}
	})
	return d, nil
}

var errNoAnswer = errors.New("JetStream takes too long")

// append stores an envelope that may only get the position pos. After an error the outcome is
// unknown, the envelope may still be read, and nothing may be appended any more.
func (d *direct) append(ctx context.Context, envelope []byte, pos uint64, patience time.Duration) error {
	header := append(make([]byte, 0, 80), "NATS/1.0\r\n"+jetstream.ExpectedLastSeqHeader+": "...)
	header = append(strconv.AppendUint(header, pos-1, 10), "\r\n\r\n"...)
	d.patient.Reset(patience)
	d.jobs <- job{header, envelope, pos}
	select {
	case err := <-d.results:
		d.patient.Stop()
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.patient.C:
		return errNoAnswer
	}
}

// close waits for a job that is under way.
func (d *direct) close() {
	close(d.jobs)
	d.ended.Wait()
	d.patient.Stop()
}
