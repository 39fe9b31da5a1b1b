package journal

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
)

// TestDirectDeclarations compares what direct.go declares with the source of the server. When it
// fails after an update of nats-server, correct the declarations first and directVersion then.
func TestDirectDeclarations(t *testing.T) {
	if server.VERSION != directVersion {
		t.Errorf("nats-server is %s, and its functions are declared as those of %s: it is used through a client, which is slower", server.VERSION, directVersion)
	}
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/nats-io/nats-server/v2/server").Output()
	if err != nil {
		t.Fatal(err)
	}
	for want, file := range map[string]string{
		"func (a *Account) lookupStream(name string) (*stream, error)": "jetstream.go",
		"func (mset *stream) processJetStreamMsg(subject, reply string, hdr, msg []byte, lseq uint64, ts int64, mt *msgTrace, sourced bool, needIsolation bool) error": "stream.go",
		"func (mset *stream) lastSeq() uint64":                                       "stream.go",
		"func (mset *stream) unsubscribeToStream(stopping, shuttingDown bool) error": "stream.go",
	} {
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, filepath.Join(strings.TrimSpace(string(dir)), file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			f.Body, f.Doc = nil, nil
			var text bytes.Buffer
			if err := printer.Fprint(&text, files, f); err != nil {
				t.Fatal(err)
			}
			found = found || text.String() == want
		}
		if !found {
			t.Errorf("%s has no %s", file, want)
		}
	}
}

// TestDirectAndClient: both ways to append write the same log.
func TestDirectAndClient(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for i := range uint64(6) {
		log := openedEmbedded(t, dir, EmbeddedOptions{off: guards{direct: i%2 == 0}})
		if (log.direct == nil) != (i%2 == 0) {
			t.Fatal("not the way that was asked for")
		}
		appended(t, log, sample("a", 2*i+1, 1), 2*i+1)
		appended(t, log, sample("a", 2*i+2, 1), 2*i+2)
		log.Close()
	}
	log := openedEmbedded(t, dir, EmbeddedOptions{})
	defer log.Close()
	for i, b := range contents(t, log, 0) {
		if !bytes.Equal(b, sample("a", uint64(i)+1, 1)) {
			t.Errorf("position %d has other bytes", i+1)
		}
	}
}

//go:linkname unsubscribeToStream github.com/nats-io/nats-server/v2/server.(*stream).unsubscribeToStream
func unsubscribeToStream(mset unsafe.Pointer, stopping, shuttingDown bool) error

// TestDirectInactive: a stream that has begun to end stores nothing and reports no error. That is
// no acknowledgement.
func TestDirectInactive(t *testing.T) {
	log := openedEmbedded(t, filepath.Join(t.TempDir(), "data"), EmbeddedOptions{})
	defer log.Close()
	appended(t, log, sample("a", 1, 1), 1)
	if err := unsubscribeToStream(log.direct.stream, false, false); err != nil {
		t.Fatal(err)
	}
	if pos, err := log.Append(t.Context(), sample("a", 2, 1)); !errors.Is(err, ErrBroken) {
		t.Errorf("position %d, %v", pos, err)
	}
}

// TestDirectGivesUp: a JetStream that does not answer holds nobody up for ever.
func TestDirectGivesUp(t *testing.T) {
	silent := func() *direct {
		return &direct{jobs: make(chan job, 1), results: make(chan error, 1), timer: time.NewTimer(0)}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := silent().append(ctx, nil, 1, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("the context ends: %v", err)
	}
	if err := silent().append(t.Context(), nil, 1, time.Millisecond); !errors.Is(err, errTimeout) {
		t.Errorf("the patience ends: %v", err)
	}
}
