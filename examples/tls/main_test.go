package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// TestMain runs the tests, or the example itself for tests that need it as a separate
// process.
func TestMain(m *testing.M) {
	if os.Getenv("HONE_TEST_ROLE") == "example" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// onEveryEngine runs a test on every engine, new ones included.
func onEveryEngine(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) { test(t, e) })
	}
}

// running is the running program and its output.
type running struct {
	addr, fingerprint string
	stop              context.CancelFunc
	ended             chan error
	stderr            bytes.Buffer // read it only after the program has ended
}

// start runs the program until stop is called or the test ends.
func start(t *testing.T, o options) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{stop: cancel, ended: make(chan error, 1)}
	stdout, w := io.Pipe()
	var program sync.WaitGroup
	program.Go(func() {
		o.addr = "127.0.0.1:0"
		err := run(ctx, o, w, &r.stderr)
		w.Close()
		r.ended <- err
	})
	t.Cleanup(func() { cancel(); stdout.Close(); program.Wait() })
	lines := bufio.NewReader(stdout)
	for _, line := range []struct {
		format string
		value  *string
	}{{"listening on %s", &r.addr}, {"certificate SHA-256 %s", &r.fingerprint}} {
		text, err := lines.ReadString('\n')
		if _, bad := fmt.Sscanf(text, line.format, line.value); bad != nil {
			t.Fatalf("said %q, %v; want %q", text, err, line.format)
		}
	}
	return r
}

// dial opens a TLS connection and makes a Client of it.
func dial(t *testing.T, addr string, config *tls.Config) (*framed.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	client := framed.NewClient(nc, framed.ClientOptions{})
	t.Cleanup(func() { client.Close() })
	return client, nil
}

// pinned trusts only the certificate with this fingerprint.
func pinned(want string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection is stricter
		VerifyConnection: func(s tls.ConnectionState) error {
			if got := fingerprint(s.PeerCertificates[0].Raw); got != want {
				return fmt.Errorf("the certificate's fingerprint is %s, want %s", got, want)
			}
			return nil
		},
	}
}

// call sends many concurrent requests, and wants each answered in upper case.
func call(t *testing.T, client *framed.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 20 {
				ask := fmt.Sprintf("caller %d, request %d %s", i, n, strings.Repeat("x", n*i*100))
				got, err := client.Call(ctx, nil, []byte(ask))
				if string(got) != strings.ToUpper(ask) || err != nil {
					t.Errorf("%.40q answered with %.40q, %v", ask, got, err)
				}
			}
		})
	}
	callers.Wait()
}

func TestSelfSigned(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, options{engine: e})
		client, err := dial(t, r.addr, pinned(r.fingerprint))
		if err != nil {
			t.Fatal(err)
		}
		call(t, client)
		r.stop()
		<-client.Done()
		if err := client.Err(); !errors.Is(err, wire.ShuttingDown) {
			t.Errorf("the client ended with %v, want wire.ShuttingDown", err)
		}
		client.Close()
		if err := <-r.ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if said := r.stderr.String(); !strings.HasPrefix(said, "1 connections, 160 requests, ") || !strings.HasSuffix(said, "drained: 1 clean, 0 forced\n") {
			t.Errorf("the counts are %q", said)
		}
	})
}

// With -cert and -key, clients verify as usual.
func TestGivenCertificate(t *testing.T) {
	cert, key, roots := certificateFiles(t)
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, options{engine: e, cert: cert, key: key})
		client, err := dial(t, r.addr, &tls.Config{RootCAs: roots})
		if err != nil {
			t.Fatal(err)
		}
		call(t, client)
		var unknown *tls.CertificateVerificationError
		if _, err := dial(t, r.addr, &tls.Config{RootCAs: x509.NewCertPool()}); !errors.As(err, &unknown) {
			t.Errorf("a client that does not know the certificate: %v, want a CertificateVerificationError", err)
		}
	})
}

// With -client-ca, the handler knows the client's name, and only clients of that authority
// are served.
func TestClientCertificates(t *testing.T) {
	cert, key, roots := certificateFiles(t)
	ca, foreign := newAuthority(t, "clients"), newAuthority(t, "strangers")
	ann, bob, eve := ca.issue(t, "Ann"), ca.issue(t, "Bob"), foreign.issue(t, "Ann")
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, options{engine: e, cert: cert, key: key, clientCA: ca.file})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ask := func(certificates ...tls.Certificate) (string, error) {
			client, err := dial(t, r.addr, &tls.Config{RootCAs: roots, Certificates: certificates})
			if err != nil {
				return "", err
			}
			answer, err := client.Call(ctx, nil, []byte("hello"))
			return string(answer), err
		}
		for name, certificate := range map[string]tls.Certificate{"Ann": ann, "Bob": bob} {
			if got, err := ask(certificate); got != name+": HELLO" || err != nil {
				t.Errorf("%s is answered with %q, %v", name, got, err)
			}
		}
		if got, err := ask(); err == nil {
			t.Errorf("a client without a certificate is answered with %q", got)
		}
		if got, err := ask(eve); err == nil {
			t.Errorf("a client of a foreign authority is answered with %q", got)
		}
		r.stop()
		if err := <-r.ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if said := r.stderr.String(); !strings.Contains(said, " 2 requests, ") {
			t.Errorf("the counts are %q, want 2 requests", said)
		}
	})
}

// authority signs client certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{key: key, file: filepath.Join(t.TempDir(), name+".pem")}
	der := a.sign(t, &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}, key)
	if a.certificate, err = x509.ParseCertificate(der); err == nil {
		err = os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issue makes a client certificate.
func (a authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := a.sign(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// sign fills in the common fields; the authority's own certificate signs itself.
func (a authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) (der []byte) {
	t.Helper()
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent := a.certificate
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// certificateFiles writes a certificate and its key, and returns a pool that trusts it.
func certificateFiles(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	made, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: made.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leaf, err := x509.ParseCertificate(made.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(leaf)
	return cert, key, roots
}

// A client that does not speak TLS is refused, without affecting others.
func TestNoTLS(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, options{engine: e})
		plain, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		plain.SetDeadline(time.Now().Add(patience))
		plain.Write(wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: []byte("hello")}))
		if got, _ := io.ReadAll(plain); bytes.Contains(got, []byte("HELLO")) {
			t.Errorf("answered %q to a client without TLS", got)
		}
		client, err := dial(t, r.addr, pinned(r.fingerprint))
		if err != nil {
			t.Fatal(err)
		}
		call(t, client)
	})
}

func TestMissingCertificate(t *testing.T) {
	cert, key, _ := certificateFiles(t)
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, o := range []options{{cert: missing, key: missing}, {cert: cert}, {key: key}, {clientCA: cert}, {cert: cert, key: key, clientCA: missing}} {
		err := run(t.Context(), o, io.Discard, io.Discard)
		if said := fmt.Sprint(err); !errors.Is(err, os.ErrNotExist) || !strings.Contains(said, "-cert and -key") {
			t.Errorf("%+v: %s, want os.ErrNotExist and what to give", o, said)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = run(t.Context(), options{addr: ln.Addr().String()}, io.Discard, io.Discard)
	if said := fmt.Sprint(err); err == nil || !strings.Contains(said, "-addr") {
		t.Errorf("on an address in use: %s, want an error that names -addr", said)
	}
}

func TestExitStatus(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"-h", 0, "-cert file"},
		{"-h", 0, "-client-ca file"},
		{"-engine steam", 2, "buffered, events, events-inline"},
		{"-engine", 2, "-engine"},
		{"-port 1", 2, "-port"},
		{"please", 2, "Usage"},
		{"-addr nowhere", 1, "choose another address with -addr"},
	} {
		cmd := exec.CommandContext(t.Context(), self, strings.Fields(test.args)...)
		cmd.Env = append(os.Environ(), "HONE_TEST_ROLE=example", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
		said, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.code || !bytes.Contains(said, []byte(test.says)) {
			t.Errorf("%s ends with %v, want exit status %d and %q:\n%s", test.args, err, test.code, test.says, said)
		}
	}
}
