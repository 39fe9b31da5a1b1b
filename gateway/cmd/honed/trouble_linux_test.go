package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/cluster"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/natstest"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lone is one nats-server, whose configuration may change.
type lone struct {
	t       *testing.T
	addr    string
	store   string
	config  string
	binary  string
	process *exec.Cmd
}

func newLone(t *testing.T, binary string) *lone {
	dir := t.TempDir()
	return &lone{t: t, binary: binary, addr: testrun.FreeAddr(t), store: filepath.Join(dir, "store"), config: filepath.Join(dir, "nats.conf")}
}

// configure writes a configuration with settings, and has a running server read it.
func (l *lone) configure(jetstream, settings string) {
	l.t.Helper()
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always%s }\n%s\n", l.addr, l.store, jetstream, settings)
	must(l.t, os.WriteFile(l.config, []byte(text), 0o600))
	if l.process != nil {
		must(l.t, l.process.Process.Signal(syscall.SIGHUP))
	}
}

func (l *lone) start() {
	l.t.Helper()
	l.process = exec.Command(l.binary, "-c", l.config)
	must(l.t, l.process.Start())
	l.t.Cleanup(func() { l.process.Process.Kill(); l.process.Wait() })
	eventually(l.t, "nats-server listens", func() bool {
		nc, err := net.Dial("tcp", l.addr)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

// gateway starts a honed whose log is in this server.
func (l *lone) gateway(more ...string) *ran {
	l.t.Helper()
	args := append([]string{
		"serve", "--json", "--until-eof", "--admin", "127.0.0.1:0", "--data", l.t.TempDir(), "--listen", "127.0.0.1:0",
		"--log", "nats://" + l.addr, "--replicas", "1", "--create-stream",
	}, more...)
	return launch(l.t, exec.Command(os.Args[0], args...))
}

// secret writes a file that only its owner may read.
func secret(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// within waits until honed has said a text, and fails after five seconds.
func (g *ran) within(texts ...string) {
	g.t.Helper()
	began := time.Now()
	for _, text := range texts {
		g.says(text)
	}
	if took := time.Since(began); took > 5*time.Second {
		g.t.Errorf("honed said %q after %v", texts, took)
	}
}

// TestClusterTrouble has everything go wrong with the connection to a cluster: honed says it within
// five seconds, and goes on by itself when it is over.
func TestClusterTrouble(t *testing.T) {
	t.Parallel()
	binary := natstest.Binary(t)
	for name, test := range map[string]func(t *testing.T, l *lone){
		"nobody answers": func(t *testing.T, l *lone) {
			l.configure("", "")
			dir := t.TempDir()
			g := l.gateway("--data", dir)
			g.within("cannot connect to the cluster", "connection refused")
			refusesOrders(t, dir)
			l.start()
			g.ready()
			g.says("connected to the cluster")
			load := beginGently(t, g.addr)
			load.reach(10)
			load.end()
			must(t, g.cmd.Process.Signal(syscall.SIGTERM))
			if code := g.wait(); code != commandline.OK {
				t.Errorf("honed ended with %d", code)
			}
		},
		"wrong password": func(t *testing.T, l *lone) {
			l.configure("", `authorization { user: honed, password: "the right one" }`)
			l.start()
			password := secret(t, "wrong\n")
			g := l.gateway("--nats-user", "honed", "--nats-password-file", password)
			g.within("cannot connect to the cluster", "Authorization Violation")
			must(t, os.WriteFile(password, []byte("the right one\n"), 0o600))
			g.ready()
			// The password is changed in both places, first at the server.
			load := beginGently(t, g.addr)
			load.reach(100)
			l.configure("", `authorization { user: honed, password: "another one" }`)
			g.within("the connection to the cluster is lost")
			must(t, os.WriteFile(password, []byte("another one\n"), 0o600))
			g.says("connected to the cluster again")
			load.reach(load.acked.Load() + 100)
			load.end()
		},
		"no TLS there": func(t *testing.T, l *lone) {
			l.configure("", "")
			l.start()
			g := l.gateway("--log", "tls://"+l.addr)
			g.within("cannot connect to the cluster", "secure connection not available")
		},
		"an authority of one's own": func(t *testing.T, l *lone) {
			cert, key := ownCertificate(t)
			l.configure("", fmt.Sprintf("tls { cert_file: %q, key_file: %q }", cert, key))
			l.start()
			g := l.gateway()
			g.within("cannot connect to the cluster", "certificate signed by unknown authority")
			l.gateway("--nats-ca", cert).ready()
		},
		"no storage left": func(t *testing.T, l *lone) {
			l.configure(", max_file_store: 16MB", "")
			l.start()
			js := l.client()
			works(t)(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BALLAST", Subjects: []string{"ballast"}}))
			for range 12 {
				works(t)(js.Publish(t.Context(), "ballast", make([]byte, 1<<20-1024)))
			}
			g := l.gateway()
			g.ready()
			load := begin(t, g.addr)
			g.says("no space for the log")
			if status := g.health(); status != http.StatusServiceUnavailable {
				t.Errorf("/healthz returns %d without storage", status)
			}
			before := load.acked.Load()
			must(t, js.DeleteStream(t.Context(), "BALLAST"))
			g.says("there is space for the log again")
			load.reach(before + 100)
			load.stop()
		},
		"mark deleted": func(t *testing.T, l *lone) {
			l.configure("", "")
			l.start()
			dir := t.TempDir()
			g := l.gateway("--data", dir)
			g.ready()
			began := time.Now()
			must(t, os.Remove(filepath.Join(dir, "HONED.mark")))
			if code, took := g.wait(), time.Since(began); code != commandline.Failed || took > 2*time.Second && !testrun.Race {
				t.Errorf("honed ended with %d after %v: %s", code, took, g.lastLine())
			}
		},
		"stopped server": func(t *testing.T, l *lone) {
			l.configure("", "")
			l.start()
			g := l.gateway()
			g.ready()
			load := beginGently(t, g.addr)
			load.reach(100)
			must(t, l.process.Process.Signal(syscall.SIGSTOP))
			g.within("the connection to the cluster is lost")
			if status := g.health(); status != http.StatusServiceUnavailable {
				t.Errorf("/healthz returns %d without a cluster", status)
			}
			must(t, l.process.Process.Signal(syscall.SIGCONT))
			g.says("connected to the cluster again")
			load.reach(load.acked.Load() + 100)
			load.end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newLone(t, binary))
		})
	}
}

// client connects to the server.
func (l *lone) client(options ...nats.Option) jetstream.JetStream {
	l.t.Helper()
	nc, err := nats.Connect("nats://"+l.addr, options...)
	must(l.t, err)
	l.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(l.t, err)
	return js
}

// TestClusterPermissions runs honed with the permissions that docs/durability.md recommends: nobody
// else may write to the stream, change it or delete from it.
func TestClusterPermissions(t *testing.T) {
	t.Parallel()
	l := newLone(t, natstest.Binary(t))
	text, err := os.ReadFile("../../../docs/durability.md")
	must(t, err)
	_, permissions, _ := strings.Cut(string(text), "```conf\n")
	permissions, _, found := strings.Cut(permissions, "```")
	if !found {
		t.Fatal("docs/durability.md has no permissions")
	}
	l.configure("", permissions)
	l.start()
	g := l.gateway("--nats-user", "honed", "--nats-password-file", secret(t, "CHANGE-ME-1"))
	g.ready()
	load := beginGently(t, g.addr)
	load.reach(100)
	brief, cancel := context.WithTimeout(t.Context(), time.Second) // what is forbidden gets no answer
	defer cancel()
	var asking sync.WaitGroup
	for user, password := range map[string]string{"reader": "CHANGE-ME-2", "app": "CHANGE-ME-3"} {
		js := l.client(nats.UserInfo(user, password), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		ask := func(subject, request string) func() error {
			return func() error {
				answer, err := js.Conn().RequestWithContext(brief, subject, []byte(request))
				if err == nil && strings.Contains(string(answer.Data), `"error"`) {
					err = errors.New(string(answer.Data))
				}
				return err
			}
		}
		for name, ask := range map[string]func() error{
			"publish":        ask("honed.log.HONED", "x"),
			"update":         ask("$JS.API.STREAM.UPDATE.HONED", `{"name":"HONED","subjects":["honed.log.HONED"],"max_msgs":1}`),
			"delete":         ask("$JS.API.STREAM.DELETE.HONED", ""),
			"purge":          ask("$JS.API.STREAM.PURGE.HONED", "{}"),
			"purge a part":   ask("$JS.API.STREAM.PURGE.HONED", `{"seq":2}`),
			"delete message": ask("$JS.API.STREAM.MSG.DELETE.HONED", `{"seq":1}`),
			"restore":        ask("$JS.API.STREAM.RESTORE.HONED", `{"config":{"name":"HONED"}}`),
		} {
			asking.Go(func() {
				if ask() == nil && (user != "app" || name != "restore") { // in its own account it may
					t.Errorf("%s, %s: allowed", user, name)
				}
			})
		}
		asking.Go(func() { // have the server publish to the stream
			_, err := js.CreateStream(brief, jetstream.StreamConfig{
				Name: "MINE", Subjects: []string{"mine"}, RePublish: &jetstream.RePublish{Source: "mine", Destination: "honed.log.HONED"},
			})
			if err == nil {
				_, err = js.Publish(brief, "mine", []byte("x"))
			}
			if (err == nil) != (user == "app") {
				t.Errorf("%s, a stream of its own: %v", user, err)
			}
		})
	}
	asking.Wait()
	if code, out, errs := honed(t, "verify", "--data", t.TempDir(), "--log", "nats://"+l.addr, "--replicas", "1",
		"--nats-user", "reader", "--nats-password-file", secret(t, "CHANGE-ME-2")); code != commandline.OK {
		t.Errorf("verify as reader: %d %s%s", code, out, errs)
	}
	own, err := cluster.Open(t.Context(), "nats://"+l.addr, cluster.Options{Replicas: 1, User: "honed", PasswordFile: secret(t, "CHANGE-ME-1")})
	must(t, err)
	defer own.Close()
	if err := own.Verify(t.Context(), 0, nil); err != nil {
		t.Errorf("something else is in the log: %v", err)
	}
	if err := own.Trim(t.Context(), 2); err != nil {
		t.Errorf("honed's own trim: %v", err)
	}
	if first, _, err := own.Bounds(); first != 2 || err != nil {
		t.Errorf("trimmed: the first position is %d, %v", first, err)
	}
	load.reach(load.acked.Load() + 100)
	load.end()
}

// ownCertificate makes a certificate for 127.0.0.1 that signs itself.
func ownCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nats"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	secretKey, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return secret(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))),
		secret(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secretKey})))
}
