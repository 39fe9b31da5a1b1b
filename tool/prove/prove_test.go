package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
)

// TestMain plays a honed when a test has started this binary as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, serve(os.Args))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// hasty acknowledges each envelope before it stores it: with the eighth behind it. What is written
// survives kill -9 before its fsync has returned, so one would often be stored.
type hasty struct {
	journal.Log
	late [][]byte
	pos  uint64
}

func (h *hasty) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if len(h.late) == 8 {
		if _, err := h.Log.Append(ctx, h.late[0]); err != nil {
			return 0, err
		}
		h.late = h.late[1:]
	}
	h.late, h.pos = append(h.late, slices.Clone(envelope)), h.pos+1
	return h.pos, nil
}

func serve(args []string) error {
	flag := func(name string) string { return args[slices.Index(args, name)+1] }
	var log journal.Log
	log, err := journal.OpenSegments(flag("--data"), journal.SegmentsOptions{})
	if err != nil {
		return err
	}
	if strings.HasSuffix(flag("--data"), "hasty") {
		_, next, err := log.Bounds()
		if err != nil {
			return err
		}
		log = &hasty{Log: log, pos: next - 1}
	}
	ln, err := net.Listen("tcp", flag("--listen"))
	if err != nil {
		return err
	}
	srv := &gateway.Server{Log: log}
	if err := srv.Recover(context.Background()); err != nil {
		return err
	}
	json.NewEncoder(os.Stdout).Encode(map[string][]string{"listen": {ln.Addr().String()}})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return srv.Serve(ln)
}

// TestRun kills a gateway under load: nothing is lost. The control acknowledges what it has not stored, and is found out.
func TestRun(t *testing.T) {
	for folder, want := range map[string]error{"log": nil, "hasty": gateway.ErrRegressed} {
		o := Options{Honed: os.Args[0], Folder: filepath.Join(t.TempDir(), folder), Messages: 20_000, Clients: 3, Window: 256, Size: 32, Kills: 2}
		r, err := Run(t.Context(), o)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", folder, err, want)
		}
		if want == nil && (!r.Holds() || r.Acknowledged != 20_000 || r.Stored != 20_000 || r.Kills != 2 || r.Resent == 0) {
			t.Errorf("%s: %+v", folder, r)
		}
	}
}

// TestVerify counts what is wrong with a log.
func TestVerify(t *testing.T) {
	log, err := journal.OpenSegments(t.TempDir(), journal.SegmentsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o := Options{Messages: 6, Clients: 1, Size: MinSize}
	var e journal.Encoder
	e.Begin(0)
	for i, n := range []uint64{1, 0, 0, 2, 3, 9} { // 0 is late, and twice; 3 is changed; 4 and 5 are missing; there is no 9
		data := make([]byte, MinSize)
		if fill(data, n); n == 3 {
			data[MinSize-1]++
		}
		if err := e.Record(&journal.Record{Client: name(0), Epoch: 1, Seq: uint64(i + 1), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := log.Append(t.Context(), e.Bytes()); err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := o.verify(t.Context(), log, &r); err != nil || r != (Result{Stored: 6, Lost: 2, Twice: 1, OutOfOrder: 1, Wrong: 2}) {
		t.Errorf("%v, %+v", err, r)
	}
}
