package tlsfiles_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/hone-go/hone/tlsfiles"
)

// A server whose certificate is in files. When the files are replaced, the next handshake uses the new
// ones. With hone's servers the listener is engine.NewTLSListener(ln, config).
func ExampleServer() {
	test := httptest.NewTLSServer(nil) // for its certificate, and a client that trusts it
	client := test.Client()
	defer client.CloseIdleConnections()
	dir := files(test.TLS.Certificates[0])
	defer os.RemoveAll(dir)
	test.Close()

	config, err := tlsfiles.Server{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}.Config()
	if err != nil {
		log.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Version", tls.VersionName(r.TLS.Version))
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	answer, err := client.Get("https://" + ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	fmt.Println(answer.Status, answer.Header.Get("Version"))
	srv.Close()
	<-served
	// Output: 200 OK TLS 1.3
}

// A file that is missing or does not fit is an error at the start.
func ExampleServer_Config() {
	_, err := tlsfiles.Server{Cert: "gone.pem", Key: "gone-key.pem"}.Config()
	fmt.Println(err)
	// Output: tlsfiles: open gone.pem: no such file or directory
}

// files writes a certificate and its key into a new folder.
func files(c tls.Certificate) (dir string) {
	dir, err := os.MkdirTemp("", "tlsfiles")
	if err != nil {
		log.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		log.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: c.Certificate[0]},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	return dir
}
