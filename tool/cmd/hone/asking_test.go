package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// dial connects to HOST:PORT, unix:PATH, tls:HOST:PORT, or tls+NAME:HOST:PORT with
// NAME's certificate.
func dial(ctx context.Context, ts *testscript.TestScript, where string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(where, "unix:"); ok {
		return new(net.Dialer).DialContext(ctx, "unix", ts.MkAbs(path))
	}
	if scheme, addr, _ := strings.Cut(where, ":"); strings.HasPrefix(scheme, "tls") {
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM([]byte(ts.ReadFile("cert.pem")))
		if _, name, ok := strings.Cut(scheme, "+"); ok {
			pair, err := tls.LoadX509KeyPair(ts.MkAbs(name+".pem"), ts.MkAbs(name+"-key.pem"))
			ts.Check(err)
			config.Certificates = []tls.Certificate{pair}
		}
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", where)
}

// ask prints pushes and answers; of long ones the length.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: ask WHERE CONTENT…")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nc, err := dial(ctx, ts, args[0])
	ts.Check(err)
	out := ts.Stdout()
	client := framed.NewClient(nc, framed.ClientOptions{OnDeliver: func(id uint64, content []byte) {
		fmt.Fprintf(out, "pushed %d %q\n", id, content)
	}})
	defer client.Close()
	for _, content := range args[1:] {
		began := time.Now()
		reply, err := client.Call(ctx, nil, []byte(content))
		switch {
		case err != nil:
			fmt.Fprintf(out, "%s: error: %v\n", content, err)
		case len(reply) > 100:
			fmt.Fprintf(out, "%s: %d bytes\n", content, len(reply))
		default:
			fmt.Fprintf(out, "%s: %q\n", content, reply)
		}
		if _, rest, ok := strings.Cut(content, " "); ok && err == nil {
			if d, err := time.ParseDuration(rest); err == nil && time.Since(began) < d {
				ts.Fatalf("%s took %v", content, time.Since(began))
			}
		}
	}
}

// leave sends requests and keeps their connections open.
func leave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: leave N CONTENT")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	for range n {
		nc, err := net.DialTimeout("tcp", ts.Getenv("ADDR"), patience)
		ts.Check(err)
		ts.Defer(func() { nc.Close() })
		_, err = nc.Write(wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: []byte(args[1])}))
		ts.Check(err)
	}
}

// get prints a page.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: get URL [NAME:VALUE ...]")
	}
	request, err := http.NewRequest(http.MethodGet, args[0], nil)
	ts.Check(err)
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, ":")
		request.Header.Set(name, value)
		if name == "Host" {
			request.Host = value
		}
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(request)
	ts.Check(err)
	defer resp.Body.Close()
	fmt.Fprintln(ts.Stdout(), resp.Status)
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
}

// await waits until a figure of /stats is as wanted.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await KEY=VALUE")
	}
	key, want, _ := strings.Cut(args[0], "=")
	poll(ts, "/stats", func(_ int, stats map[string]any) bool { return fmt.Sprint(stats[key]) == want })
}

// awaitRequests waits until the server has had some.
func awaitRequests(ts *testscript.TestScript) {
	poll(ts, "/stats", func(_ int, stats map[string]any) bool { return stats["requests_received"] != 0.0 })
}

// unready waits until the server says that it drains.
func unready(ts *testscript.TestScript, neg bool, args []string) {
	poll(ts, "/healthz", func(status int, _ map[string]any) bool { return status == http.StatusServiceUnavailable })
}

// poll asks the admin side until an answer is as wanted.
func poll(ts *testscript.TestScript, path string, wanted func(status int, object map[string]any) bool) {
	client := http.Client{Timeout: patience, Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		resp, err := client.Get("http://" + ts.Getenv("ADMIN") + path)
		ts.Check(err)
		body, err := io.ReadAll(resp.Body)
		ts.Check(err)
		resp.Body.Close()
		var object map[string]any
		json.Unmarshal(body, &object) // nil for what is none
		if wanted(resp.StatusCode, object) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("%s says %s %s", path, resp.Status, body)
		}
	}
}

// fields looks into a JSON object.
func fields(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fields FILE KEY=VALUE…")
	}
	var object any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &object))
	if all, ok := object.(map[string]any); ok && documents()[fmt.Sprint(all["schema"])] != nil {
		listing, err := os.ReadFile(schemasFile)
		ts.Check(err)
		if unknown := undescribed("\n"+string(listing), fmt.Sprint(all["schema"]), object); unknown != "" {
			ts.Fatalf("%s has no field %s", schemasFile, unknown)
		}
	}
	for _, check := range args[1:] {
		at := strings.IndexAny(check, "=<>")
		if at < 0 {
			ts.Fatalf("%q compares nothing", check)
		}
		got := object
		for key := range strings.SplitSeq(check[:at], ".") {
			switch in := got.(type) {
			case map[string]any:
				value, ok := in[key]
				if !ok {
					ts.Fatalf("%s: there is no %s", check, key)
				}
				if least := in[key+"_at_least"]; value == nil && check[at] == '>' { // the machine was busy
					value = least
				}
				got = value
			case []any:
				i, err := strconv.Atoi(key)
				if err != nil || i >= len(in) {
					ts.Fatalf("%s: there is no %s", check, key)
				}
				got = in[i]
			default:
				ts.Fatalf("%s: %v has no %s", check, got, key)
			}
		}
		want, holds := check[at+1:], false
		number, isNumber := got.(float64)
		bound, err := strconv.ParseFloat(want, 64)
		switch check[at] {
		case '=':
			holds = fmt.Sprint(got) == want || isNumber && err == nil && number == bound
		case '<':
			holds = isNumber && err == nil && number < bound
		case '>':
			holds = isNumber && err == nil && number > bound
		}
		if !holds {
			ts.Fatalf("%s: it is %v", check, got)
		}
	}
}

// occupy takes a port until the script ends.
func occupy(ts *testscript.TestScript, neg bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { ln.Close() })
	ts.Setenv("TAKEN", ln.Addr().String())
}

// port finds one that nobody listens on until t ends.
func port(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		addr := testrun.FreeAddr(t)
		ts.Setenv("ADDR", addr)
		ts.Setenv("URL", "http://"+addr+"/")
	}
}

// stale leaves a socket file behind, as a server that was killed does.
func stale(ts *testscript.TestScript, neg bool, args []string) {
	ln, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ts.Check(ln.Close())
}

// alive listens on a socket file until the script ends.
func alive(ts *testscript.TestScript, neg bool, args []string) {
	ln, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { ln.Close() })
}

// mode expects that a file is a socket with these permissions.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL PATH")
	}
	info, err := os.Lstat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] || info.Mode().Type() != os.ModeSocket {
		ts.Fatalf("%s is %v, want a socket with %s", args[1], info.Mode(), args[0])
	}
}

// cert makes a certificate for 127.0.0.1 and its key. Who trusts it trusts clients
// that have it.
func cert(ts *testscript.TestScript, neg bool, args []string) {
	names := [2]string{"cert.pem", "key.pem"}
	if len(args) == 1 {
		names = [2]string{args[0] + ".pem", args[0] + "-key.pem"}
	}
	ts.Check(writeCertificate(ts.MkAbs(names[0]), ts.MkAbs(names[1])))
}

func writeCertificate(cert, secret string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), NotBefore: time.Now().Add(-time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	return cmp.Or(err,
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(secret, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// renew gives the server NAME's certificate and waits until clients see it.
func renew(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: renew NAME")
	}
	ts.Check(os.Rename(ts.MkAbs(args[0]+".pem"), ts.MkAbs("cert.pem")))
	ts.Check(os.Rename(ts.MkAbs(args[0]+"-key.pem"), ts.MkAbs("key.pem")))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		nc, err := dial(ctx, ts, "tls:"+ts.Getenv("ADDR")) // trusts the new one alone
		if err == nil {
			nc.Close()
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			ts.Fatalf("the server does not use its new certificate: %v", err)
		}
	}
}
