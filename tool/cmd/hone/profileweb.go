package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/session"
)

const pageHeadTime = 5 * time.Second // to read a request's header

// serve serves google/pprof's pages until the context ends.
func (f *profileFlags) serve(cmd *cobra.Command, view *probe.View, names []string) error {
	ctx := cmd.Context()
	ln, err := listenHere(ctx, f.web)
	if err != nil {
		return err
	}
	defer ln.Close()
	pages, err := view.Pages()
	if err != nil {
		return exit.Failedf("profile: --web: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", ln.Addr())
	if len(names) > 1 {
		fmt.Fprintf(cmd.ErrOrStderr(), "hone: %s of %s, red where it is more than in %s; stop with Ctrl-C\n", view.Kind, names[0], names[1])
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "hone: %s of %s; stop with Ctrl-C\n", view.Kind, names[0])
	}
	if err := session.ServeUntil(ctx, &http.Server{Handler: pages, ReadHeaderTimeout: pageHeadTime}, ln); err != nil {
		return exit.Failedf("profile: --web: %w", err)
	}
	return nil
}

// listenHere listens on a loopback address only.
func listenHere(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, exit.Usagef("profile: --web %q: write it as in 127.0.0.1:8080", addr)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, exit.Usagef("profile: --web %s: other machines could read the program's profiles; use 127.0.0.1:%s, and ssh -L from elsewhere", addr, port)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		var outer *net.OpError
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return nil, exit.Failedf("profile: --web %s: %w; use another port (0 picks a free one)", addr, err)
	}
	return ln, nil
}
