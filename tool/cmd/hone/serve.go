package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/serving"
	"github.com/hone-go/hone/tool/spec"
)

// Defaults of hone serve's addresses.
const (
	defaultAddr  = "127.0.0.1:7000"
	defaultAdmin = "127.0.0.1:7070"
)

func newServe() *cobra.Command {
	f := &serving.Options{Mode: 0o600, Version: command.BuildOf(release).Version}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve framed requests, HTTP or WebSocket, until a signal",
		Long: `Serve framed requests, HTTP or WebSocket, until SIGTERM or SIGINT, which drain for up to
25 s (with --limit spread-time=30s, connections first end evenly over 30 s). A second signal
ends it at once.

Engines:

` + serving.EngineList() + `
Services: submit answers with an empty reply, upper with the content in upper case.
faults does what the content says: sleep 50ms, burn 50ms, late 5ms, reply 60000 (bytes),
push 3, panic. http has GET /hello, /echo (a body of at most 1 MiB) and
/stream?n=10&pause=100ms (server-sent events). ws echoes messages at /echo.

Limits: ` + strings.Join(serving.LimitNames(), ", ") + `;
see docs/limits.md. Without --addr, it serves on a socket passed by systemd (LISTEN_FDS).
Certificates and keys are reloaded when their files change. For --upgrade, see
docs/upgrades.md.`,
		Example: `  hone serve
  hone serve --addr :7000 --limit conns-per-address=100
  hone serve --service http --addr 127.0.0.1:8080 --cert server.pem --key server-key.pem
  hone serve --service upper --addr unix:/run/hone/hone.sock --socket-mode 0660 --admin off
  hone serve --json --addr 127.0.0.1:0 --admin 127.0.0.1:0`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Given = cmd.Flags().Changed
			return f.Run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.Addr, "addr", defaultAddr, "serve on `HOST:PORT`, unix:PATH or fd:N; port 0 picks a free one")
	flags.Var(&f.Mode, "socket-mode", "permissions of the socket file of unix:PATH, in octal: 0660 also allows its group")
	flags.StringVar(&f.Admin, "admin", defaultAdmin, "metrics, profiles and health on `HOST:PORT`, unix:PATH, or off")
	flags.StringVar(&f.TokenFile, "admin-token-file", "", "`FILE` with the token with which other machines may use the admin side")
	flags.StringArrayVar(&f.AdminHosts, "admin-host", nil, "accept this host `NAME` in requests to the admin side, as in hone.internal; repeat for more")
	flags.Var(&f.Engine, "engine", "I/O engine")
	flags.StringVar(&f.Upgrade, "upgrade", "", "take the sockets of the hone serve that has this socket, unix:`PATH`, and give them to the next one")
	f.Service = spec.AddChoice(cmd, "service", "submit", "service that handles requests", serving.ServiceNames()...)
	flags.Var(&f.Limits, "limit", "set a limit; repeat for more")
	flags.BoolVar(&f.GiveWay, "give-way", false, "at the limit conns, close the longest idle connection for a new one, as http does")
	flags.StringSliceVar(&f.Proxies, "trust-proxy", nil, "expect PROXY headers from the addresses in this `CIDR`; repeat for more")
	flags.StringVar(&f.Cert, "cert", "", "speak TLS with the certificate in this PEM `FILE`")
	flags.StringVar(&f.Key, "key", "", "the certificate's key, a PEM `FILE`")
	flags.StringVar(&f.ClientCA, "client-ca", "", "require client certificates signed by an authority in this PEM `FILE`")
	flags.StringVar(&f.TicketKeys, "ticket-keys", "", "resume the TLS sessions of other processes, with the keys in this `FILE` (docs/tls.md)")
	flags.BoolVar(&f.NoHTTP2, "no-http2", false, "with TLS and --service http or ws, speak HTTP/1.1 only")
	f.Logs = spec.AddChoice(cmd, "log-format", "text", "format of the log on standard error", "text", "json")
	flags.BoolVar(&f.Timed, "handler-times", true, "time one request in 128 for the admin side: about 15 ns per request")
	flags.BoolVar(&f.JSON, "json", false, "print one line of JSON when ready: addr, admin, engine, pid")
	flags.BoolVar(&f.UntilEOF, "until-eof", false, "drain when standard input ends, too: the server does not outlive its parent")
	return cmd
}
