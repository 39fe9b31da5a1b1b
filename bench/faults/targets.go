package faults

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"embed"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/load"
)

// whole are complete servers, by name, and the commands that start them. The others are programs of
// bench/servers.
var whole = map[string]string{
	"frames/hone-serve": "{dir}/whole/hone serve --addr {addr} --admin off",
	"http/hone-serve":   "{dir}/whole/hone serve --addr {addr} --admin off --service http",
	"ws/hone-serve":     "{dir}/whole/hone serve --addr {addr} --admin off --service ws",
	"frames/honed":      "{dir}/whole/honed --listen {addr} --admin off --data {dir}/log",
	"http/nginx":        "nginx -p {dir} -e stderr -c {dir}/nginx.conf",
	"http/haproxy":      "haproxy -db -f {dir}/haproxy.cfg",
	"http2/nginx":       "nginx -p {dir} -e stderr -c {dir}/nginx2.conf",
	"http2/haproxy":     "haproxy -db -f {dir}/haproxy2.cfg",
	"resp/redis":        "redis-server --bind 127.0.0.1 --port {port} --save '' --appendonly no",
}

// configs are the files of those that need one.
//
//go:embed nginx.conf haproxy.cfg nginx2.conf haproxy2.cfg
var configs embed.FS

const http2 = "http2/" // the names of those that speak HTTP/2, over TLS

// Servers are those of bench/servers and the complete ones, which speak HTTP/2 or do not. Their names begin
// with their protocol.
func Servers(second bool) []fleet.Entry {
	all := []fleet.Entry{{Name: "frames/article", Program: "article", Module: "github.com/hone-go/hone/bench"}}
	for protocol, entries := range map[string][]fleet.Entry{"frames": fleet.All(), "http": fleet.HTTP(), "ws": fleet.WebSocket()} {
		for _, e := range entries {
			if !e.Extra && !e.ParsesNothing { // what parses nothing cannot refuse anything
				e.Name = protocol + "/" + e.Name
				all = append(all, e)
			}
		}
	}
	for name, command := range whole {
		program, _, _ := strings.Cut(command, " ")
		all = append(all, fleet.Entry{Name: name, Program: filepath.Base(program)})
	}
	for _, e := range fleet.HTTP() {
		if e.Name == "net/http" || e.Name == "http1-events" {
			e.Name = http2 + e.Name
			all = append(all, e)
		}
	}
	all = slices.DeleteFunc(all, func(e fleet.Entry) bool { return strings.HasPrefix(e.Name, http2) != second })
	slices.SortFunc(all, byName)
	return all
}

func byName(a, b fleet.Entry) int { return strings.Compare(a.Name, b.Name) }

// honedHello begins a session of docs/gateway.md, under a name of the connection's own.
const honedHello = "hgw2\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "\x10################" + "\x00\x00"

// plan is what servers of a protocol are asked.
func plan(name, addr string) (p load.Plan, err error) {
	switch protocol, _, _ := strings.Cut(name, "/"); protocol {
	case "frames":
		frames := load.Frames{Address: addr}
		if name == "frames/honed" {
			frames.Hello = honedHello
		}
		p.Target = frames
	case "http":
		p.Target = load.HTTP{URL: "http://" + addr + web.HelloPath}
	case "http2":
		p.Target = load.HTTP{URL: "https://" + addr + web.HelloPath, TLS: &tls.Config{InsecureSkipVerify: true}} // its certificate is made up
	case "ws":
		p.Target = load.WebSocket{URL: "ws://" + addr + web.EchoPath}
	case "resp":
		messages := load.Messages{Address: addr}
		err = messages.Framing.UnmarshalText([]byte(protocol))
		p.Target, p.Content = messages, []byte("PING")
	}
	return p, err
}

// Build builds entries into dir, fills in their versions, and returns those that can be run: a
// program of the system's may not be installed. module is the folder of the module bench.
func Build(ctx context.Context, module, dir string, entries []fleet.Entry, say func(string)) ([]fleet.Entry, error) {
	version := regexp.MustCompile(`\d+(\.\d+)+`)
	var built, others []fleet.Entry
	for _, e := range entries {
		switch {
		case whole[e.Name] == "":
			built = append(built, e)
			continue
		case e.Program == "hone", e.Program == "honed":
			from := map[string]string{"hone": "./tool/cmd/hone", "honed": "./gateway/cmd/honed"}[e.Program]
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(dir, "whole", e.Program), from)
			cmd.Dir = filepath.Dir(module)
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("go build: %w\n%s", err, out)
			}
		default:
			said, err := exec.CommandContext(ctx, e.Program, "-v").CombinedOutput()
			if err != nil {
				say(fmt.Sprintf("%s is left out, as it cannot be run: %v", e.Name, err))
				continue
			}
			e.Version = version.FindString(string(said))
		}
		others = append(others, e)
	}
	if len(built) > 0 {
		if err := fleet.Build(ctx, module, dir, built); err != nil {
			return nil, err
		}
	}
	all := append(built, others...)
	slices.SortFunc(all, byName)
	return all, nil
}

// command writes the configurations into dir, and returns the command that starts a server there.
func command(dir, addr string, e fleet.Entry) (string, error) {
	_, port, _ := strings.Cut(addr, ":")
	fill := strings.NewReplacer("{dir}", dir, "{addr}", addr, "{port}", port)
	if err := certificate(filepath.Join(dir, "cert.pem")); err != nil {
		return "", err
	}
	for _, config := range []string{"nginx.conf", "haproxy.cfg", "nginx2.conf", "haproxy2.cfg"} {
		text, err := configs.ReadFile(config)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, config), []byte(fill.Replace(string(text))), 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	line := whole[e.Name]
	if line == "" {
		line = "{dir}/" + e.Program + " --addr {addr} --loops 2" + strings.TrimSuffix(" --engine "+e.Engine, " --engine ")
		if strings.HasPrefix(e.Name, http2) {
			line += " --tls"
		}
	}
	return "exec " + fill.Replace(line), nil
}

// certificate writes a certificate and its key into a file.
func certificate(path string) error {
	c, err := web.Certificate()
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	return os.WriteFile(path, append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...), 0o600)
}
