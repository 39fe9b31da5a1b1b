package tlsfiles_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/tlsfiles"
)

// authority signs certificates. They are valid in fake time too, and all have the same
// length.
type authority struct {
	certificate *x509.Certificate
	key         ed25519.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	a.certificate, a.key = sign(t, a, &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true})
	return a
}

// sign makes a certificate; with a nil authority, it is self-signed.
func sign(t testing.TB, a *authority, template *x509.Certificate) (*x509.Certificate, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Unix(0, 0), time.Unix(1<<32, 0)
	parent, key := a.certificate, a.key
	if parent == nil {
		parent, key = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, private
}

// text returns certificates in PEM.
func text(certificates ...*x509.Certificate) (all []byte) {
	for _, c := range certificates {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return all
}

// issue makes a certificate and its key, in PEM.
func (a *authority) issue(t testing.TB, serial int64) (cert, key []byte) {
	t.Helper()
	certificate, private := sign(t, a, &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}})
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return text(certificate), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// pool returns a pool that contains a.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// client returns the configuration of a client that trusts a, with a certificate from by
// unless that is nil.
func (a *authority) client(t testing.TB, by *authority) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: a.pool(), ServerName: "localhost"}
	if by != nil {
		pair, err := tls.X509KeyPair(by.issue(t, 99))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// folder is the directory of a server's files.
type folder struct {
	t   testing.TB
	dir string
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// put replaces a file atomically, as tools that renew certificates do.
func (f folder) put(name string, content []byte) {
	f.t.Helper()
	if err := os.WriteFile(f.path("new"), content, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.path("new"), f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

// renew installs a new certificate and its key.
func (f folder) renew(by *authority, serial int64) {
	f.t.Helper()
	cert, key := by.issue(f.t, serial)
	f.put("cert", cert)
	f.put("key", key)
}

// server returns the Server for the files, with its log.
func (f folder) server(clientCA bool) (tlsfiles.Server, *bytes.Buffer) {
	said := new(bytes.Buffer)
	s := tlsfiles.Server{Cert: f.path("cert"), Key: f.path("key"), Logger: slog.New(slog.NewTextHandler(said, nil))}
	if clientCA {
		s.ClientCA = f.path("ca")
	}
	return s, said
}

func (f folder) config(clientCA bool) (*tls.Config, *bytes.Buffer) {
	f.t.Helper()
	s, said := f.server(clientCA)
	config, err := s.Config()
	if err != nil {
		f.t.Fatal(err)
	}
	return config, said
}

// link is a connection between a server and a client in this process.
type link struct {
	server, client *tls.Conn
}

// connect performs a handshake and exchanges a byte, which is when a client with TLS 1.3
// learns that it was refused.
func connect(t testing.TB, server, client *tls.Config) (link, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // not a net.Pipe, where two alerts deadlock
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l := link{tls.Server(a, server), tls.Client(b, client)}
	t.Cleanup(func() { a.Close(); b.Close() })
	served := make(chan error, 1)
	go func() {
		err := l.server.Handshake()
		if err == nil {
			_, err = l.server.Write([]byte{1})
		}
		if err != nil {
			a.Close()
		}
		served <- err
	}()
	_, err = io.ReadFull(l.client, make([]byte, 1))
	if err != nil {
		b.Close()
	}
	if err := <-served; err != nil {
		return l, err
	}
	return l, err
}

// serial returns the serial number of the server's certificate.
func (l link) serial() int64 {
	return l.client.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// wantSerial connects and checks the certificate's serial number.
func wantSerial(t testing.TB, what string, server, client *tls.Config, want int64) link {
	t.Helper()
	l, err := connect(t, server, client)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if got := l.serial(); got != want {
		t.Errorf("%s: the certificate is %d, want %d", what, got, want)
	}
	return l
}

// alive checks that the connection carries bytes.
func (l link) alive(t testing.TB) {
	t.Helper()
	go l.client.Write([]byte("alive"))
	got := make([]byte, 5)
	if _, err := io.ReadFull(l.server, got); string(got) != "alive" || err != nil {
		t.Errorf("an open connection carries %q, %v", got, err)
	}
}

// passes lets fake time pass.
func passes(d time.Duration) { <-time.After(d) }

// onFakeTime runs a test in fake time with its own folder.
func onFakeTime(t *testing.T, test func(t *testing.T, f folder)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, folder{t, dir}) })
}

// With ClientCA a client needs a certificate from that authority; without it, none.
func TestClientsNeedACertificate(t *testing.T) {
	us, them := newAuthority(t), newAuthority(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		f := folder{t, t.TempDir()}
		f.renew(us, 1)
		f.put("ca", text(us.certificate))
		needy, _ := f.config(true)
		open, _ := f.config(false)
		for _, c := range []struct {
			name           string
			client         *tls.Config
			toOpen, toNeed bool
		}{
			{"one without a certificate", us.client(t, nil), true, false},
			{"one of a foreign authority", us.client(t, them), true, false},
			{"one of the right authority", us.client(t, us), true, true},
		} {
			c.client.MaxVersion = version
			if _, err := connect(t, open, c.client); (err == nil) != c.toOpen {
				t.Errorf("%s, %s where none is needed: %v", tls.VersionName(version), c.name, err)
			}
			l, err := connect(t, needy, c.client)
			if (err == nil) != c.toNeed {
				t.Errorf("%s, %s where one is needed: %v", tls.VersionName(version), c.name, err)
			}
			if chains := l.server.ConnectionState().VerifiedChains; (len(chains) == 1) != c.toNeed {
				t.Errorf("%s, %s: verified chains %v", tls.VersionName(version), c.name, chains)
			}
		}
	}
}

// New files apply from the first handshake a second later; open connections are not
// affected.
func TestNewFilesAreUsed(t *testing.T) {
	onFakeTime(t, func(t *testing.T, f folder) {
		us := newAuthority(t)
		f.renew(us, 1)
		config, said := f.config(false)
		client := us.client(t, nil)
		before := wantSerial(t, "at first", config, client, 1)
		f.renew(us, 2)
		wantSerial(t, "within a second", config, client, 1)
		passes(time.Second)
		after := wantSerial(t, "a second later", config, client, 2)
		before.alive(t)
		after.alive(t)
		for range 3 {
			passes(time.Second)
			wantSerial(t, "with nothing new", config, client, 2)
		}
		if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "reloaded") || !strings.Contains(got, "not_after=2106-") {
			t.Errorf("log = %q, want one line about reloaded files", got)
		}
	})
}

// A replaced file is detected even with the same size and time.
func TestReplacedFilesAreSeen(t *testing.T) {
	onFakeTime(t, func(t *testing.T, f folder) {
		us := newAuthority(t)
		f.renew(us, 1)
		config, _ := f.config(false)
		var old [2]fs.FileInfo
		for i, name := range []string{"cert", "key"} {
			var err error
			if old[i], err = os.Stat(f.path(name)); err != nil {
				t.Fatal(err)
			}
			os.Link(f.path(name), f.path(name+".old")) // keeps its inode from being reused
		}
		f.renew(us, 2)
		for i, name := range []string{"cert", "key"} {
			if err := os.Chtimes(f.path(name), old[i].ModTime(), old[i].ModTime()); err != nil {
				t.Fatal(err)
			}
			if now, err := os.Stat(f.path(name)); err != nil || now.Size() != old[i].Size() || !now.ModTime().Equal(old[i].ModTime()) {
				t.Fatalf("%s does not differ from the old one as this test needs: %v, %v", name, now, err)
			}
		}
		passes(time.Second)
		wantSerial(t, "the new file", config, us.client(t, nil), 2)
	})
}

// Unusable files are logged once and refuse no client; when they are usable again, they
// apply.
func TestBrokenFilesKeepTheOldOnes(t *testing.T) {
	us, them := newAuthority(t), newAuthority(t)
	cert, key := us.issue(t, 2)
	other, _ := us.issue(t, 3)
	for name, damage := range map[string]func(f folder){
		"no certificate":             func(f folder) { os.Remove(f.path("cert")) },
		"no key":                     func(f folder) { os.Remove(f.path("key")) },
		"no authority":               func(f folder) { os.Remove(f.path("ca")) },
		"an empty certificate":       func(f folder) { f.put("cert", nil) },
		"an empty authority":         func(f folder) { f.put("ca", nil) },
		"half a certificate":         func(f folder) { f.put("cert", cert[:len(cert)/2]) },
		"half of the intermediate":   func(f folder) { f.put("key", key); f.put("cert", append(bytes.Clone(cert), other[:len(other)/2]...)) },
		"half of the next authority": func(f folder) { f.put("ca", append(text(us.certificate), text(them.certificate)[:90]...)) },
		"a hole between authorities": func(f folder) { f.put("ca", append(text(us.certificate)[:90], text(them.certificate)...)) },
		"no DER inside":              func(f folder) { f.put("ca", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})) },
		"a key as authority":         func(f folder) { f.put("ca", key) },
		"a new key alone":            func(f folder) { f.put("key", key) },
		"a new certificate alone":    func(f folder) { f.put("cert", cert) },
	} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, f folder) {
				f.renew(us, 1)
				f.put("ca", text(us.certificate))
				config, said := f.config(true)
				client := us.client(t, us)
				damage(f)
				for range 3 {
					passes(time.Second)
					wantSerial(t, "with broken files", config, client, 1)
				}
				if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, f.dir) {
					t.Errorf("log = %q, want one warning that names the file", got)
				}
				if _, err := connect(t, config, us.client(t, them)); err == nil {
					t.Error("with broken files a client of a foreign authority is let in")
				}
				f.put("cert", cert)
				f.put("key", key)
				f.put("ca", text(us.certificate, them.certificate))
				passes(time.Second)
				wantSerial(t, "repaired", config, client, 2)
				wantSerial(t, "repaired, for a client of the second authority", config, us.client(t, them), 2)
			})
		})
	}
}

// Files that could not be read are read again, although they have not changed.
func TestFailedReadIsTriedAgain(t *testing.T) {
	onFakeTime(t, func(t *testing.T, f folder) {
		us := newAuthority(t)
		f.renew(us, 1)
		config, said := f.config(false)
		f.renew(us, 2)
		good, err := os.ReadFile(f.path("cert"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(f.path("cert"))
		if err != nil {
			t.Fatal(err)
		}
		write := func(content []byte) {
			if err := errors.Join(os.WriteFile(f.path("cert"), content, 0o600), os.Chtimes(f.path("cert"), info.ModTime(), info.ModTime())); err != nil {
				t.Fatal(err)
			}
		}
		write(bytes.Repeat([]byte("?"), len(good)))
		for range 3 {
			passes(time.Second)
			wantSerial(t, "with a broken file", config, us.client(t, nil), 1)
		}
		write(good)
		passes(time.Second)
		wantSerial(t, "once it can be read", config, us.client(t, nil), 2)
		if got := said.String(); strings.Count(got, "level=WARN") != 1 {
			t.Errorf("log = %q, want one warning", got)
		}
	})
}

// A client whose authority was removed cannot return by resuming a session.
func TestSessionsEndWithTheirAuthority(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, f folder) {
				us, them := newAuthority(t), newAuthority(t)
				f.renew(us, 1)
				f.put("ca", text(us.certificate, them.certificate))
				config, _ := f.config(true)
				client := us.client(t, them)
				client.MaxVersion, client.ClientSessionCache = version, tls.NewLRUClientSessionCache(1)
				connect(t, config, client)
				f.renew(us, 2)
				passes(time.Second)
				l, err := connect(t, config, client)
				if err != nil || !l.client.ConnectionState().DidResume {
					t.Fatalf("with a new certificate a session is not resumed: %v; this test would prove nothing", err)
				}
				f.put("ca", text(us.certificate))
				passes(time.Second)
				if _, err := connect(t, config, client); err == nil {
					t.Error("a client whose authority is gone has resumed its session")
				}
			})
		})
	}
}

// Clients resume their sessions at the next process, if that has their key.
func TestTicketKeysOutliveAProcess(t *testing.T) {
	const first, second, third = "aa", "bb", "cc"
	keys := func(all ...string) (file []byte) {
		for _, k := range all {
			file = append(file, strings.Repeat(k, 32)+"\n"...)
		}
		return file
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, f folder) {
				us := newAuthority(t)
				f.renew(us, 1)
				start := func() *tls.Config {
					s, _ := f.server(false)
					s.TicketKeys = f.path("tickets")
					config, err := s.Config()
					if err != nil {
						t.Fatal(err)
					}
					return config
				}
				client := us.client(t, nil)
				client.MaxVersion, client.ClientSessionCache = version, tls.NewLRUClientSessionCache(1)
				want := func(what string, config *tls.Config, resumes bool) {
					t.Helper()
					l, err := connect(t, config, client)
					if err != nil || l.client.ConnectionState().DidResume != resumes {
						t.Errorf("%s: resumed %v, want %v: %v", what, !resumes, resumes, err)
					}
				}
				f.put("tickets", keys(first))
				old := start()
				want("at first", old, false)
				want("again", old, true)
				want("at the next process", start(), true)
				f.put("tickets", keys(second, first))
				passes(time.Second)
				want("with a new key in front", old, true)
				f.put("tickets", keys(second))
				want("at the next process without the first key", start(), true)
				f.put("tickets", keys(third))
				want("with another key", start(), false)
			})
		})
	}
}

func TestBadTicketKeys(t *testing.T) {
	us := newAuthority(t)
	f := folder{t, t.TempDir()}
	f.renew(us, 1)
	for content, says := range map[string]string{
		"":                                 "no key in it",
		strings.Repeat("a", 63):            "key 1 is not 64 hexadecimal digits",
		strings.Repeat("ab", 32) + "\nxyz": "key 2 is not 64 hexadecimal digits",
	} {
		f.put("tickets", []byte(content))
		s, _ := f.server(false)
		s.TicketKeys = f.path("tickets")
		_, err := s.Config()
		if text := fmt.Sprint(err); !strings.HasSuffix(text, says) {
			t.Errorf("%q: %s, want %s", content, text, says)
		}
	}
}

func TestConfigReportsBadFiles(t *testing.T) {
	us := newAuthority(t)
	f := folder{t, t.TempDir()}
	f.renew(us, 1)
	f.put("ca", text(us.certificate))
	for name, spoil := range map[string]func(s *tlsfiles.Server){
		"certificate": func(s *tlsfiles.Server) { s.Cert = f.path("missing") },
		"key":         func(s *tlsfiles.Server) { s.Key = f.path("missing") },
		"authority":   func(s *tlsfiles.Server) { s.ClientCA = f.path("missing") },
	} {
		s, said := f.server(true)
		spoil(&s)
		_, err := s.Config()
		if text := fmt.Sprint(err); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(text, "tlsfiles: ") || !strings.Contains(text, f.path("missing")) {
			t.Errorf("no %s: %s, want a wrapped fs.ErrNotExist with its path", name, text)
		}
		if said.Len() > 0 {
			t.Errorf("no %s: it was returned and logged: %s", name, said)
		}
	}
}

// Base's settings apply before and after a renewal, and Base is not modified.
func TestBaseIsKept(t *testing.T) {
	onFakeTime(t, func(t *testing.T, f folder) {
		us := newAuthority(t)
		f.renew(us, 1)
		s, _ := f.server(false)
		s.Base = &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}}
		config, err := s.Config()
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Base.Certificates) > 0 || s.Base.GetConfigForClient != nil {
			t.Error("Base was changed")
		}
		client, old := us.client(t, nil), us.client(t, nil)
		client.NextProtos, old.MaxVersion = []string{"h2"}, tls.VersionTLS12
		for serial := range int64(2) {
			l := wantSerial(t, "with Base", config, client, serial+1)
			if got := l.server.ConnectionState().NegotiatedProtocol; got != "h2" {
				t.Errorf("the protocol is %q, want h2", got)
			}
			if _, err := connect(t, config, old); err == nil {
				t.Error("TLS 1.2 is served although Base begins at 1.3")
			}
			f.renew(us, serial+2)
			passes(time.Second)
		}
	})
}

// Concurrent handshakes while the files change: none fails.
func TestHandshakesWhileFilesChange(t *testing.T) {
	onFakeTime(t, func(t *testing.T, f folder) {
		us := newAuthority(t)
		f.renew(us, 1)
		f.put("ca", text(us.certificate))
		config, _ := f.config(true)
		client := us.client(t, us)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range 20 {
					if _, err := connect(t, config, client); err != nil {
						t.Errorf("while files change: %v", err)
					}
					passes(300 * time.Millisecond)
				}
			})
		}
		for serial := range int64(10) {
			f.renew(us, serial+2)
			passes(700 * time.Millisecond)
		}
		clients.Wait()
		passes(time.Second)
		wantSerial(t, "in the end", config, client, 11)
	})
}

// BenchmarkHandshakesShare is the cost that reloading adds to a handshake: between two
// checks, and for the one per second that checks.
func BenchmarkHandshakesShare(b *testing.B) {
	us := newAuthority(b)
	f := folder{b, b.TempDir()}
	f.renew(us, 1)
	f.put("ca", text(us.certificate))
	config, _ := f.config(true)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.GetConfigForClient(nil); err != nil {
			b.Fatal(err)
		}
	}
}
