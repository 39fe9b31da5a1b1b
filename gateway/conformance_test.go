package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// TestPython has a second client, written in another language, check the protocol.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	tokens, err := ReadTokens(tokensOf(t, 0o600, "python a-token-for-python", "other another-token-there-is"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tokens *Tokens
		args   []string
	}{
		"open":   {nil, nil},
		"tokens": {tokens, []string{tokensOf(t, 0o600, "a-token-for-python")}},
	} {
		t.Run(name, func(t *testing.T) {
			log := newGate()
			up := serve(t, &Server{Log: log, Tokens: c.tokens})
			host, port, _ := net.SplitHostPort(up.addr)
			out, err := exec.CommandContext(soon(t), python, append([]string{"conformance/client.py", host, port}, c.args...)...).CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "all passed\n") {
				t.Fatalf("%v\n%s", err, out)
			}
			for client, got := range records(t, log) {
				if len(got) != 503 || got[0] != "record 1" || got[500] != "record 501" {
					t.Errorf("%s: %d records, the first is %q", client, len(got), got[0])
				}
			}
			fmt.Fprint(t.Output(), string(out))
		})
	}
}

// TestPythonDevice runs a device that keeps its session in a file, several times.
func TestPythonDevice(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	log := newGate()
	up := serve(t, &Server{Log: log})
	host, port, _ := net.SplitHostPort(up.addr)
	folder := t.TempDir()
	send := func(store string, from, to int) (string, error) {
		cmd := exec.CommandContext(soon(t), python, "conformance/device.py", host, port, "meter", "--store", filepath.Join(folder, store))
		var lines strings.Builder
		for n := from; n <= to; n++ {
			fmt.Fprintln(&lines, n)
		}
		cmd.Stdin = strings.NewReader(lines.String())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	each := testrun.Sized(20, 50) // it stores each line with an fsync
	for from := range 3 {
		if out, err := send("first", from*each+1, from*each+each); err != nil || out != "" {
			t.Fatal(err, out)
		}
	}
	got := records(t, log)["meter"]
	for i, data := range got {
		if data != fmt.Sprint(i+1) {
			t.Fatalf("record %d is %q", i+1, data)
		}
	}
	if len(got) != 3*each {
		t.Errorf("%d records instead of %d", len(got), 3*each)
	}
	if out, err := send("second", 1, 1); err != nil || out != "" {
		t.Fatal(err, out)
	}
	if out, err := send("first", 1, 1); err == nil || !strings.Contains(out, "stopped: fenced") {
		t.Error("two devices with one name:", err, out)
	}
}

// TestPythonDeviceStoresAlone has a device store more records before it connects than its thread can be woken for.
func TestPythonDeviceStoresAlone(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	log := newGate()
	up := serve(t, &Server{Log: log})
	host, port, _ := net.SplitHostPort(up.addr)
	const count = 2000
	program := fmt.Sprintf(`
import sys, threading
sys.path.insert(0, "conformance")
import device
meter = device.Device((%q, %s), "meter", store=":memory:")
for n in range(%d):
    meter.put(b"%%d" %% n)
threading.Thread(target=meter.run, daemon=True).start()
meter.flush()
`, host, port, count)
	if out, err := exec.CommandContext(soon(t), python, "-B", "-c", program).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := records(t, log)["meter"]; len(got) != count || got[count-1] != fmt.Sprint(count-1) {
		t.Errorf("%d records instead of %d", len(got), count)
	}
}

// TestPythonDeviceNoticesSilence has a device store records without a pause, and a server that says nothing after the
// welcome: it gets heartbeats, and the device connects again.
func TestPythonDeviceNoticesSilence(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	host, port, _ := net.SplitHostPort(ln.Addr().String())
	cmd := exec.CommandContext(soon(t), python, "conformance/device.py", host, port, "meter", "--store", filepath.Join(t.TempDir(), "device.db"))
	var said strings.Builder
	cmd.Stdin, cmd.Stderr = endless("21.5\n"), &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	ln.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	accept := func() *peer {
		nc, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(patience / 2))
		return &peer{t, nc}
	}
	p := accept()
	if _, err := p.receive(); err != nil {
		t.Fatal(err)
	}
	w := welcome{level: Disk, epoch: 1, window: 10, most: 1000, idle: 3 * time.Second}
	p.send(wire.Packet{Command: wire.ConnAck, ID: 1, Content: w.append(nil)})
	heartbeats := 0
	packet, err := p.receive()
	for ; err == nil; packet, err = p.receive() {
		if packet.Command == wire.Conn {
			heartbeats++
		}
	}
	if heartbeats != 2 {
		t.Fatalf("%d heartbeats, then %v", heartbeats, err)
	}
	accept()
	cmd.Process.Kill()
	cmd.Wait()
	if !strings.Contains(said.String(), "the server is silent") {
		t.Error(said.String())
	}
}

// endless is a Reader of one line again and again.
type endless string

func (e endless) Read(b []byte) (int, error) { return copy(b, e), nil }

// TestPythonTLS has both Python programs connect as a deployment has them: with TLS and a token file.
func TestPythonTLS(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	authority := (*signer)(nil).sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	own := authority.sign(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := ReadTokens(tokensOf(t, 0o600, "meter the-token-of-the-meter", "copy the-token-of-the-reader reads"))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := serveOn(t, &Server{Log: new(Memory), Tokens: tokens}, engine.NewTLSListener(ln, &tls.Config{Certificates: []tls.Certificate{own.tls()}}))
	host, port, _ := net.SplitHostPort(up.addr)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"", []string{"device.py", host, port, "meter", "--store", filepath.Join(t.TempDir(), "device.db"), "--token-file", tokensOf(t, 0o600, "the-token-of-the-meter"), "--ca", trusted}},
		{`"data": "MQ=="`, []string{"reader.py", host, port, "copy", "--count", "1", "--token-file", tokensOf(t, 0o600, "the-token-of-the-reader\n"), "--ca", trusted}},
		{"refused: 6", []string{"reader.py", host, port, "copy", "--token-file", tokensOf(t, 0o600, "another-token-there-is"), "--ca", trusted}},
	} {
		c.args[0] = filepath.Join("conformance", c.args[0])
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // they try again without end
		defer cancel()
		cmd := exec.CommandContext(ctx, python, c.args...)
		cmd.Stdin = strings.NewReader("1\n")
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), c.want) || err != nil && !strings.Contains(c.want, "refused") {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}
