package fleet

import (
	"context"
	"crypto/x509"
	"debug/buildinfo"
	"embed"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
)

// Entry is one server of the comparison: a program, and how it is to be run.
type Entry struct {
	table.Server
	Engine string // its --engine; empty: the program's default
	// Package is what the program is built from, below the repository. Empty: bench/servers/Program, or, with a
	// Command, a program of the system.
	Package string
	// Command starts a program that is not one of bench/servers, with {dir}, {addr} and {port}.
	Command string
	Source  string // one file in C, below bench/servers/Program, that cc compiles; empty: none
	TLS     bool   // it speaks TLS
	Inside  bool   // it is part of this program, so that nothing is built or started
}

const hone = "github.com/hone-go/hone"

func entry(name, program, module string) Entry {
	return Entry{Server: table.Server{Name: name, Program: program, Module: module}}
}

// ours is a server of hone on an engine.
func ours(name, program, engine string) Entry {
	e := entry(name, program, hone)
	e.Engine = engine
	return e
}

// system is a program of the system.
func system(name, command string) Entry {
	program, _, _ := strings.Cut(command, " ")
	e := entry(name, program, "")
	e.Command = command
	return e
}

// whole is a program of hone's with all that belongs to it.
func whole(name, from, command string) Entry {
	e := entry(name, filepath.Base(from), "")
	e.Package, e.Command = from, "{dir}/whole/"+command
	return e
}

// Frames are the servers of hone's frames: the floor without a library, then the standard library.
func Frames() []Entry {
	floor := entry("floor", table.Floor, "")
	floor.Source = "floor.c"
	return []Entry{
		floor,
		entry("net", "netbufio", "net and bufio"),
		entry("gnet", "gnet", "github.com/panjf2000/gnet/v2"),
		entry("netpoll", "netpoll", "github.com/cloudwego/netpoll"),
		entry("nbio", "nbio", "github.com/lesismal/nbio"),
		ours("hone-buffered", "hone", "buffered"),
		ours("hone-events", "hone", "events"),
	}
}

// HTTP are the servers of HTTP, the standard library first.
func HTTP() []Entry {
	return []Entry{
		entry("net/http", "nethttp", "net/http"),
		entry("fasthttp", "fasthttp", "github.com/valyala/fasthttp"),
		entry("nbio", "nbhttp", "github.com/lesismal/nbio"),
		ours("http1-events", "http1", "events"),
	}
}

// Nginx answers as the servers of HTTP do to the shortest request.
func Nginx() Entry { return system("nginx", "nginx -p {dir} -e stderr -c {dir}/nginx.conf") }

// Alone is the server as one process, whose CPU time is then the server's.
func (e Entry) Alone() Entry {
	if e.Program == "nginx" {
		e.Command += " -g 'master_process off;'"
	}
	return e
}

// HTTP2 are the servers of HTTP/2, over TLS.
func HTTP2() []Entry {
	all := []Entry{
		entry("net/http", "nethttp", "net/http"), ours("http1-events", "http1", "events"),
		system("nginx", "nginx -p {dir} -e stderr -c {dir}/nginx2.conf"), system("haproxy", "haproxy -db -f {dir}/haproxy2.cfg"),
	}
	for i := range all {
		all[i].TLS = true
	}
	return all
}

// WebSocket are the servers of WebSocket.
func WebSocket() []Entry {
	return []Entry{
		entry("gorilla", "wsgorilla", "github.com/gorilla/websocket"),
		entry("coder", "wscoder", "github.com/coder/websocket"),
		entry("gws", "wsgws", "github.com/lxzan/gws"),
		entry("gobwas", "wsgobwas", "github.com/gobwas/ws"),
		entry("nbio", "wsnbio", "github.com/lesismal/nbio"),
		ours("hone-events", "ws", "events"),
	}
}

// Streams are the servers of event streams over HTTP.
func Streams() []Entry {
	return slices.DeleteFunc(HTTP(), func(e Entry) bool { return e.Program == "nbhttp" })
}

// Data is the folder of what servers store, in that of their programs.
const Data = "data"

// honed is the gateway, with its log on the disk.
func honed(name string) Entry {
	return whole(name, "gateway/cmd/honed", "honed --listen {addr} --admin off --data {dir}/"+Data+"/log")
}

// Gateways are those that answer when a record is on the disk.
func Gateways() []Entry {
	return []Entry{honed("honed"), system("redis", "redis-server --bind 127.0.0.1 --port {port} --dir {dir}/"+Data+" --save '' --appendonly yes --appendfsync always")}
}

// RESP are the servers of Redis' protocol.
func RESP() []Entry {
	example := entry("hone", "hone", hone)
	example.Package, example.Command = "examples/resp", "{dir}/whole/resp -addr {addr}"
	redcon := entry("redcon", "redcon", "github.com/tidwall/redcon")
	redcon.Command = "{dir}/redcon {addr}"
	return []Entry{example, redcon, system("redis", "redis-server --bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no")}
}

// Torture are those that are attacked, by name, which begins with the protocol: over HTTP/2, or over others.
func Torture(second bool) (all []Entry) {
	add := func(protocol string, entries ...Entry) {
		for _, e := range entries {
			e.Name = protocol + "/" + e.Name
			all = append(all, e)
		}
	}
	if second {
		add("http2", HTTP2()...)
	} else {
		add("frames", append(Frames()[1:], entry("article", "article", hone+"/bench"),
			whole("hone-serve", "tool/cmd/hone", "hone serve --addr {addr} --admin off"),
			honed("honed"))...)
		add("http", append(HTTP(), Nginx(), system("haproxy", "haproxy -db -f {dir}/haproxy.cfg"),
			whole("hone-serve", "tool/cmd/hone", "hone serve --addr {addr} --admin off --service http"))...)
		add("ws", append(WebSocket(), whole("hone-serve", "tool/cmd/hone", "hone serve --addr {addr} --admin off --service ws"))...)
		add("resp", RESP()[2])
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Choose returns the entries of those names, in the order of all; all of them when there are no names.
func Choose(all []Entry, names []string) []Entry {
	return slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return len(names) > 0 && !slices.Contains(names, e.Name) })
}

// Build builds the entries' programs into dir, fills in their versions, and returns those that can be run: a
// program of the system's may not be installed, and say is told. module is the folder of the module bench.
func Build(ctx context.Context, module, dir string, entries []Entry, say func(string)) (built []Entry, err error) {
	var packages []string
	for _, e := range entries {
		switch {
		case e.Inside:
			e.Version = inside(e.Module)
		case e.Source != "":
			if err := compileC(ctx, module, dir, e); errors.Is(err, exec.ErrNotFound) {
				say(fmt.Sprintf("%s is left out, as there is no C compiler: %v", e.Name, err))
				continue
			} else if err != nil {
				return nil, err
			}
		case e.Package != "":
			if err := Whole(ctx, module, dir, e.Package); err != nil {
				return nil, err
			}
		case e.external():
			if e.Version, err = externalVersion(ctx, e.Program); err != nil {
				say(fmt.Sprintf("%s is left out, as it cannot be run: %v (make deps installs it)", e.Name, err))
				err = nil
				continue
			}
		default:
			packages = append(packages, "./servers/"+e.Program)
		}
		built = append(built, e)
	}
	slices.Sort(packages)
	if packages = slices.Compact(packages); packages != nil {
		if err := Compile(ctx, module, dir, packages...); err != nil {
			return nil, err
		}
	}
	for i := range built {
		if e := &built[i]; e.Package == "" && e.Source == "" && !e.external() && !e.Inside {
			if err := e.readVersion(dir); err != nil {
				return nil, err
			}
		}
	}
	return built, configure(dir)
}

// Whole builds a program of hone's, below the repository, into the folder whole of dir.
func Whole(ctx context.Context, module, dir, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(dir, "whole")+"/", hone+"/"+program)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Packages are those of hone that the entries' programs are made of, as folders of the repository.
func Packages(ctx context.Context, module string, entries []Entry) (all []string, err error) {
	args := []string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}
	for _, e := range entries {
		switch {
		case e.Inside && e.Module == hone:
			args = append(args, hone+"/route")
		case e.Package != "":
			args = append(args, hone+"/"+e.Package)
		case e.Ours():
			args = append(args, "./servers/"+e.Program)
		}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	text, err := cmd.Output()
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), hone+"/"); found && !strings.HasPrefix(name, "bench/") && name != "bench" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

// compileC compiles an entry's file.
func compileC(ctx context.Context, module, dir string, e Entry) error {
	file := filepath.Join(module, "servers", e.Program, e.Source)
	out, err := exec.CommandContext(ctx, "cc", "-O2", "-pthread", "-o", filepath.Join(dir, e.Program), file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cc %s: %w\n%s", file, err, out)
	}
	return nil
}

// external reports whether the system has the program.
func (e Entry) external() bool {
	return e.Command != "" && !strings.HasPrefix(e.Command, "{dir}")
}

// externalVersion is that of a program of the system, which says it when asked or has it in its build information.
func externalVersion(ctx context.Context, program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	if info, err := buildinfo.ReadFile(path); err == nil {
		return info.Main.Version, nil
	}
	said, err := exec.CommandContext(ctx, path, "-v").CombinedOutput()
	return regexp.MustCompile(`\d+(\.\d+)+`).FindString(string(said)), err
}

// inside is the version of a module in this program, or of Go for a package of the standard library.
func inside(module string) string {
	info, known := debug.ReadBuildInfo()
	if !known || module == "" || module == hone {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return info.GoVersion
}

// readVersion reads of a built program which version of the module it has.
func (e *Entry) readVersion(dir string) error {
	info, err := buildinfo.ReadFile(filepath.Join(dir, e.Program))
	if err != nil {
		return err
	}
	for _, dep := range info.Deps {
		if dep.Path == e.Module && dep.Replace == nil && dep.Version != "(devel)" {
			e.Version = dep.Version
		}
	}
	if e.Program == "netbufio" || e.Program == "nethttp" {
		e.Version = info.GoVersion
	}
	return nil
}

// configs are the files of programs that need one.
//
//go:embed configs
var configs embed.FS

// configure writes the certificate that those files name, and makes the folder Data.
func configure(dir string) error {
	c, err := web.Certificate()
	if err = errors.Join(err, os.MkdirAll(filepath.Join(dir, Data), 0o700)); err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	return os.WriteFile(filepath.Join(dir, "cert.pem"), text, 0o600)
}

// Line returns the command that starts an entry of dir at an address, for a shell.
func (e Entry) Line(dir, addr string, how How) (string, error) {
	if e.Command == "" {
		return "exec " + e.run(dir, addr, how), nil
	}
	files, err := configs.ReadDir("configs")
	for _, file := range files {
		var text []byte
		if text, err = configs.ReadFile("configs/" + file.Name()); err == nil {
			err = os.WriteFile(filepath.Join(dir, file.Name()), []byte(filled(dir, addr).Replace(string(text))), 0o600)
		}
		if err != nil {
			break
		}
	}
	return "exec " + e.run(dir, addr, how), err
}

// run is the command itself.
func (e Entry) run(dir, addr string, how How) string {
	if e.Command != "" {
		return filled(dir, addr).Replace(e.Command)
	}
	line := fmt.Sprintf("%s/%s --addr %s --loops %d", dir, e.Program, addr, how.Loops)
	if e.Engine != "" {
		line += " --engine " + e.Engine
	}
	if e.TLS || how.TLS {
		line += " --tls"
	}
	return line
}

func filled(dir, addr string) *strings.Replacer {
	_, port, _ := strings.Cut(addr, ":")
	return strings.NewReplacer("{dir}", dir, "{addr}", addr, "{port}", port)
}

// Recipe returns the commands that build and run an entry, from the root of the repository and in the folder {out}.
func (e Entry) Recipe(addr string, how How) (build, run string) {
	run = e.run("{out}", addr, how)
	_, port, _ := strings.Cut(addr, ":")
	switch {
	case e.Source != "":
		build = fmt.Sprintf("cc -O2 -pthread -o {out}/%s bench/servers/%[1]s/%s", e.Program, e.Source)
	case e.Program == "nginx":
		build = fmt.Sprintf("sed -e s#{dir}#{out}#g -e s#{addr}#%s#g -e s#{port}#%s#g bench/fleet/configs/nginx.conf >{out}/nginx.conf", addr, port)
	default:
		build = "cd bench && GOWORK=off go build -trimpath -o {out}/ ./servers/" + e.Program
	}
	return build, run
}
