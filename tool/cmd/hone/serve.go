package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/serving"
	"github.com/hone-go/hone/tool/spec"
)

// Where hone serve is, if nobody says otherwise.
const (
	usualAddr  = "127.0.0.1:7000"
	usualAdmin = "127.0.0.1:7070"
)

func newServe() *cobra.Command {
	f := &serving.Options{Mode: 0o600, Version: buildVersion().Version}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve framed requests, HTTP or WebSocket, until a signal",
		Long: `Serve framed requests, HTTP or WebSocket, until SIGTERM or SIGINT, which drain: what was
sent is answered within 25 s, then the rest is cut off. A second signal does not wait.

Engines (parked and events serve TLS as buffered does):

` + serving.EngineList() + `
Services: submit answers nothing, upper the content in upper case, faults what
the content says: sleep 50ms, burn 50ms, late 5ms, late 5ms 60000 (with so many
bytes), reply 60000, push 3, push 3 6000 (of so many bytes each), panic. http speaks
HTTP/1.1 instead of frames, with TLS also HTTP/2: GET /hello, /echo (a body of at most
1 MiB), /stream?n=10&pause=100ms (server-sent events) and, with --files, /files/. ws echoes
messages of WebSocket of at most 1 MiB, at /echo.

Limits (` + strings.Join(serving.LimitNames(), ", ") + `)
are all on; the log begins with those in effect. Sizes take KiB and MiB, times
ms, s and m, and off switches a limit off.

A unix socket is open to its owner alone (mode 0600), whatever the umask is. With
--socket-mode 0660 its group may connect as well: a reverse proxy, for example.
The admin side's socket is always 0600.

New certificates, keys and authorities in the files of --cert, --key and --client-ca
are used within a second, without a restart.

A socket of systemd's (LISTEN_FDS) is used when --addr is absent or fd:3.`,
		Example: `  hone serve
  hone serve --engine direct --addr :7000 --limit conns-per-address=100
  hone serve --service upper --addr unix:/run/hone.sock --admin off
  hone serve --service http --addr 127.0.0.1:8080 --files public
  hone serve --service ws --addr 127.0.0.1:8080
  hone serve --addr unix:/run/hone/hone.sock --socket-mode 0660
  hone serve --cert server.pem --key server-key.pem
  hone serve --cert server.pem --key server-key.pem --client-ca clients.pem
  hone serve --json --addr 127.0.0.1:0 --admin 127.0.0.1:0`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Given = cmd.Flags().Changed
			return f.Run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.Addr, "addr", usualAddr, "serve on `HOST:PORT`, unix:PATH or fd:N; port 0 picks a free one")
	f.Mode.Add(cmd)
	flags.StringVar(&f.Admin, "admin", usualAdmin, "metrics, profiles and health on `HOST:PORT`, unix:PATH, or off")
	flags.StringVar(&f.TokenFile, "admin-token-file", "", "`FILE` with the token that opens the admin side to other machines")
	flags.StringArrayVar(&f.AdminHosts, "admin-host", nil, "allow requests to the admin side under this `NAME`, as in hone.internal; repeat for more")
	f.Engine.Add(cmd)
	f.Service = spec.AddChoice(cmd, "service", "submit", "what requests do", serving.ServiceNames()...)
	f.Dialect = spec.AddChoice(cmd, "dialect", "standard", "what is spoken on the wire", "standard", "demo")
	flags.StringVar(&f.Files, "files", "", "with --service http, serve this `FOLDER` below /files/")
	if err := cmd.MarkFlagDirname("files"); err != nil {
		panic("hone: " + err.Error()) // the flag was added above
	}
	flags.Var(&f.Limits, "limit", "set a limit; repeat for more")
	flags.StringSliceVar(&f.Proxies, "trust-proxy", nil, "expect PROXY headers from these addresses, a `CIDR`; repeat for more")
	flags.StringVar(&f.Cert, "cert", "", "speak TLS with the certificate in this PEM `FILE`")
	flags.StringVar(&f.Key, "key", "", "the certificate's key, a PEM `FILE`")
	flags.StringVar(&f.ClientCA, "client-ca", "", "serve only clients with a certificate of an authority in this PEM `FILE`")
	f.Logs = spec.AddChoice(cmd, "log-format", "text", "how the log on standard error is written", "text", "json")
	flags.BoolVar(&f.Timed, "handler-times", true, "time one request in 128, for the admin side: some 15 ns a request")
	flags.BoolVar(&f.JSON, "json", false, "print one line of JSON when ready: addr, admin, engine, pid")
	flags.BoolVar(&f.UntilEOF, "until-eof", false, "drain also when standard input ends, for a server that must not outlive its parent")
	return cmd
}
