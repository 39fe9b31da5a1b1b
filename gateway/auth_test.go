package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// tokensOf writes a file of tokens.
func tokensOf(t *testing.T, mode os.FileMode, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tokens")
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), mode))
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

// tokensWith reads a file of tokens.
func tokensWith(t *testing.T, lines ...string) *Tokens {
	t.Helper()
	tokens, err := ReadTokens(tokensOf(t, 0o600, lines...))
	must(t, err)
	return tokens
}

// replace replaces the tokens and their file.
func (k *Tokens) replace(t *testing.T, lines string) {
	t.Helper()
	must(t, os.WriteFile(k.path, []byte(lines), 0o600))
	must(t, k.read())
}

func TestTokens(t *testing.T) {
	hash := sha256.Sum256([]byte("the-second-token-of-b"))
	tokens := tokensWith(t, "# who may", "", "a  the-first-token-of-a", "b the-first-token-of-b", "b sha256:"+hex.EncodeToString(hash[:]))
	for _, c := range []struct {
		client, token string
		ok            bool
	}{
		{"a", "the-first-token-of-a", true},
		{"b", "the-first-token-of-b", true},
		{"b", "the-second-token-of-b", true},
		{"a", "the-first-token-of-b", false},
		{"a", "", false},
		{"b", hex.EncodeToString(hash[:]), false},
		{"b", "sha256:" + hex.EncodeToString(hash[:]), false},
		{"c", "the-first-token-of-a", false},
		{"#", "who", false},
	} {
		if _, ok := tokens.permits(c.client, sha256.Sum256([]byte(c.token)), false); ok != c.ok {
			t.Errorf("%+v", c)
		}
	}
}

func TestWrongTokenFiles(t *testing.T) {
	for _, c := range []struct {
		mode os.FileMode
		line string
		says string
	}{
		{0o644, "a a-token-in-clear-text", "chmod 600"},
		{0o600, "a", ":1: the line is not CLIENT TOKEN"},
		{0o600, "a b c", ":1: the line is not CLIENT TOKEN"},
		{0o600, "a short", ":1: a token must have 16 to 512 characters, not 5"},
		{0o600, "a sha256:12", ":1: sha256: must be followed by 64"},
		{0o600, strings.Repeat("a", 65) + " a-token-in-clear-text", ":1: a client's name has 1 to 64 bytes"},
	} {
		path := tokensOf(t, c.mode, c.line)
		if _, err := ReadTokens(path); err == nil || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%q: %v", c.line, err)
		}
	}
	if _, err := ReadTokens(tokensOf(t, 0o644, "a sha256:"+strings.Repeat("0", 64))); err != nil {
		t.Errorf("hashes are no secret: %v", err)
	}
}

// TestTokensAreFollowed: a changed file is used, and what it does not permit any more is closed. One that cannot be used is told
// once, and used once it can be, although it has not changed otherwise.
func TestTokensAreFollowed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its files have no permissions of this kind")
	}
	var said logged
	up := serve(t, &Server{
		Log: newGate(), Tokens: tokensWith(t, "a the-first-token-of-a"), tokensTime: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	a := up.peer(t)
	a.hello(hello{next: 1, client: "a", token: "the-first-token-of-a"})
	refused := func(times int) func() bool {
		return func() bool { return strings.Count(said.String(), "cannot be used") == times }
	}
	path := up.Tokens.path
	replace := func(lines string, mode os.FileMode) {
		must(t, errors.Join(os.WriteFile(path+"x", []byte(lines), mode), os.Chmod(path+"x", mode), os.Rename(path+"x", path)))
	}
	replace("b the-first-token-of-b\n", 0o644)
	waitFor(t, "a word about plaintext tokens that others can read", refused(1))
	a.stored(1, "x")
	must(t, os.Chmod(path, 0o600))
	a.closed()
	up.peer(t).hello(hello{next: 1, client: "b", token: "the-first-token-of-b"})
	replace("nonsense", 0o600)
	waitFor(t, "a word about the next one", refused(2))
	up.peer(t).hello(hello{next: 1, client: "b", token: "the-first-token-of-b"})
}

// logged is what a server has logged.
type logged struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

// TestRevokeWhileWaiting: a hello is refused if its token was revoked while it waited for the committer, before and after
// that had decided about it; so is a reader's open.
func TestRevokeWhileWaiting(t *testing.T) {
	const left = "a the-token-of-a-client\nb the-next-token-of-b\n"
	const lines = left + "b the-token-of-b-client\nspy the-token-of-the-spy reads\n"
	tokens := tokensWith(t, lines)
	log := newGate()
	up := serve(t, &Server{Log: log, Tokens: tokens})
	a, good := up.peer(t), up.peer(t)
	a.hello(hello{next: 1, client: "a", token: "the-token-of-a-client"})
	good.hello(hello{next: 1, client: "b", token: "the-next-token-of-b"})
	for _, behind := range []bool{true, false} { // what is being stored is a record, or the claim of the session
		tokens.replace(t, lines)
		log.set(true, nil)
		if behind {
			a.submit(1, "x")
			<-log.tried
		}
		b := up.peer(t)
		b.send(wire.Packet{Command: wire.Conn, ID: 1, Content: hello{next: 1, client: "b", token: "the-token-of-b-client"}.append(nil)})
		if behind {
			waitFor(t, "the hello", up.locked(func() bool { return len(up.queue.waiting) > 0 && len(up.queue.waiting[0].requests) == 1 }))
		} else {
			<-log.tried
		}
		tokens.replace(t, left)
		up.revoke()
		log.set(false, nil)
		b.must(wire.ConnAck, 1, wire.Unauthorised)
		b.closed()
		if behind {
			a.must(wire.SubmitAck, 1, wire.OK)
			good.submit(1, "y") // it was not disturbed
			good.must(wire.SubmitAck, 1, wire.OK)
		}
	}

	tokens.replace(t, lines)
	h, err := up.admit(framed.Conn{}, (&opening{start: FromFirst, name: "spy", token: "the-token-of-the-spy", shares: 1}).append(nil))
	must(t, err)
	tokens.replace(t, left)
	up.revoke()
	h.gone = true // if it is taken nevertheless, nothing is sent
	if err := up.open(h); !errors.Is(err, ErrUnauthorised) || len(up.readers.holders) > 0 {
		t.Errorf("%v, %d readers", err, len(up.readers.holders))
	}
}

// signer is an authority, or a certificate of one.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (by *signer) sign(t *testing.T, template *x509.Certificate) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if by == nil {
		by = &signer{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &signer{cert, key}
}

func (s *signer) tls() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{s.cert.Raw}, PrivateKey: s.key}
}

// certified serves s over TLS to those that have a certificate of its authority.
func certified(t *testing.T, s *Server, over func(net.Listener, *tls.Config) net.Listener) (authority *signer, up *served) {
	t.Helper()
	authority = (*signer)(nil).sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	own := authority.sign(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	config := &tls.Config{Certificates: []tls.Certificate{own.tls()}, ClientCAs: authority.pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	return authority, serveOn(t, s, over(listen(t), config))
}

func (s *signer) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.cert)
	return pool
}

// client signs a client's certificate.
func (s *signer) client(t *testing.T, template *x509.Certificate) *signer {
	t.Helper()
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return s.sign(t, template)
}

// dials is the Dial of a client that trusts s and has a certificate.
func (s *signer) dials(with *signer) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{RootCAs: s.pool(), Certificates: []tls.Certificate{with.tls()}}}
		return d.DialContext(ctx, "tcp", addr)
	}
}

// TestCertificates lets in the clients that their certificates name.
func TestCertificates(t *testing.T) {
	authority, up := certified(t, &Server{Log: newGate(), Certificates: true}, engine.NewTLSListener)
	common := authority.client(t, &x509.Certificate{Subject: pkix.Name{CommonName: "a"}})
	dns := authority.client(t, &x509.Certificate{DNSNames: []string{"x", "a"}})
	other := authority.client(t, &x509.Certificate{Subject: pkix.Name{CommonName: "b"}})
	for _, c := range []struct {
		name string
		with *signer
		want error
	}{{"common name", common, nil}, {"DNS name", dns, nil}, {"another client's", other, ErrUnauthorised}} {
		t.Run(c.name, func(t *testing.T) {
			client := &Client{ID: "a", Addrs: []string{up.addr}, Dial: authority.dials(c.with)}
			_, err := client.Submit(soon(t), []byte("x"))
			if !errors.Is(err, c.want) {
				t.Errorf("%v; want %v", err, c.want)
			}
			client.Close(soon(t))
		})
	}
	// Without TLS there is nothing to go by.
	plain := serve(t, &Server{Log: newGate(), Certificates: true}).peer(t)
	plain.send(wire.Packet{Command: wire.Conn, ID: 1, Content: first("a").append(nil)})
	plain.must(wire.ConnAck, 1, wire.Unauthorised)
}

// Clients are told an idle time that they can obey.
func TestIdleTold(t *testing.T) {
	for limit, want := range map[time.Duration]uint32{
		0: 180, -1: 0, time.Millisecond: 1, time.Second: 1, 1900 * time.Millisecond: 1, time.Hour: 3600,
	} {
		s := &Server{limits: engine.Limits{IdleTime: limit}.OrDefaults()}
		m, idle := message{}, s.idleTold()
		m.seconds(&idle)
		if got := binary.BigEndian.Uint32(m.bytes); got != want {
			t.Errorf("IdleTime %v: %d seconds, want %d", limit, got, want)
		}
	}
}
