package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/hone-go/hone/wire"
)

func request(id uint64, content string) []byte {
	return wire.Append(nil, wire.Packet{Command: wire.Submit, ID: id, Content: []byte(content)})
}

func answer(id uint64, content string) []byte {
	return wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: id, Content: []byte(content)})
}

// TestServeCutsAnywhere splits two requests at every byte.
func TestServeCutsAnywhere(t *testing.T) {
	in := append(request(1, "one"), request(2, "")...)
	want := append(answer(1, "one"), answer(2, "")...)
	for cut := range len(in) + 1 {
		first := Options{}.Serve(nil, in[:cut])
		second := Options{}.Serve(first.Out, in[first.Used:])
		if first.Close || second.Close || first.Used+second.Used != len(in) || !bytes.Equal(second.Out, want) {
			t.Errorf("cut at %d: %+v, %+v", cut, first, second)
		}
	}
}

func TestServeEndsAtNonsense(t *testing.T) {
	for name, bad := range map[string][]byte{
		"too short": {0, 0, 0, 3},
		"too long":  {0xff, 0, 0, 0},
		"an answer": answer(1, ""),
		"no id":     {0, 0, 0, 6, 2, 0},
	} {
		v := Options{}.Serve(nil, append(request(7, "before"), bad...))
		if !v.Close || !bytes.Equal(v.Out, answer(7, "before")) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestOptions(t *testing.T) {
	engines := []string{"first", "second"}
	o, err := options(engines, []string{"--loops", "2", "--addr", "127.0.0.1:0"})
	if err != nil || o.Engine != "first" || o.Loops != 2 || strings.HasSuffix(o.Addr, ":0") {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--engine", "third"}, {"--loops", "-1"}, {"--conns", "0"}, {"more"}, {"--addr", "nowhere:0"}} {
		if o, err := options(engines, bad); err == nil {
			t.Errorf("%q is taken as %+v", bad, o)
		}
	}
}

// TestRun plays a server that is ready at once.
func TestRun(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	serve := func(o Options, ready func(string)) error {
		ready(o.Addr)
		<-release
		return net.ErrClosed
	}
	var out bytes.Buffer
	if err := run([]string{"one"}, serve, []string{"--loops", "1", "--addr", "127.0.0.1:9"}, strings.NewReader("collect\n"), &out); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(&out)
	var ready Ready
	var done string
	if err := errors.Join(lines.Decode(&ready), lines.Decode(&done)); err != nil || ready.Addr != "127.0.0.1:9" || ready.PID == 0 || done != Collect {
		t.Errorf("%+v, %q, %v", ready, done, err)
	}
	if err := run([]string{"one"}, serve, nil, strings.NewReader("nonsense\n"), io.Discard); err == nil {
		t.Error("a command of no name is obeyed")
	}
	ended := func(Options, func(string)) error { return net.ErrClosed }
	if err := run([]string{"one"}, ended, nil, strings.NewReader(""), io.Discard); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a server that ends: %v", err)
	}
}
