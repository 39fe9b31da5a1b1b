package framed_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tlsfiles"
)

// TestCertificatesAreRenewedUnderOpenConnections: a connection that is open when the
// certificate changes keeps working, a new one gets the new certificate, and a client
// without a certificate is refused before and after that.
func TestCertificatesAreRenewedUnderOpenConnections(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		dir := t.TempDir()
		files := tlsfiles.Server{
			Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca"),
		}
		me := tlsConfig(t).Certificates[0]
		putPEM(t, files.ClientCA, "CERTIFICATE", me.Certificate[0])
		renew := func() (shown []byte) {
			made := tlsConfig(t).Certificates[0]
			key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
			if err != nil {
				t.Fatal(err)
			}
			putPEM(t, files.Key, "PRIVATE KEY", key)
			putPEM(t, files.Cert, "CERTIFICATE", made.Certificate[0])
			return made.Certificate[0]
		}
		first := renew()
		config, err := files.Config()
		if err != nil {
			t.Fatal(err)
		}
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addr := serveOn(t, s, engine.NewTLSListener(listenTCP(t), config))
		// connect performs a handshake and returns the server's certificate.
		connect := func(mine ...tls.Certificate) (*peer, string) {
			nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, Certificates: mine})
			if err != nil {
				t.Fatal(err)
			}
			return peerOf(t, nc), string(nc.ConnectionState().PeerCertificates[0].Raw)
		}
		refused := uint64(0)
		refuse := func() {
			t.Helper()
			for _, stranger := range [][]tls.Certificate{nil, tlsConfig(t).Certificates} {
				p, _ := connect(stranger...)
				if _, err := p.tryPacket(); err == nil {
					t.Error("a client without a valid certificate was served")
				}
				p.Close()
				refused++
				want := engine.OwnEnded{Name: "authentication_failed", Count: refused}
				eventually(t, "authentication_failed is counted", func() bool { return s.Stats().Own[0].Count >= refused })
				if st := s.Stats(); st.Own[0] != want || st.Ended[engine.Malformed] != 0 {
					t.Errorf("counted %+v and %d malformed, want %+v", st.Own[0], st.Ended[engine.Malformed], want)
				}
			}
		}

		open, shown := connect(me)
		if shown != string(first) {
			t.Error("the first certificate is not the one in the file")
		}
		open.exchange(1, "before")
		refuse()
		second := renew()
		eventually(t, "the new certificate is used", func() bool {
			nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{me}})
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if string(nc.ConnectionState().PeerCertificates[0].Raw) == string(second) {
				return true
			}
			<-time.After(50 * time.Millisecond) // a handshake costs a millisecond of CPU
			return false
		})
		refuse()
		renewed, _ := connect(me)
		renewed.exchange(1, "after")
		open.exchange(2, "after")
	})
}

// putPEM replaces a file atomically.
func putPEM(t *testing.T, path, what string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: what, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
