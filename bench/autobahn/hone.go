package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/websocket"
)

// The suite's messages have up to 16 MiB, and some come in frames of 64 bytes.
const largest = 16 << 20

// echoing is package websocket's server.
func echoing() *websocket.Upgrader {
	return &websocket.Upgrader{
		Message: func(_ websocket.Call, dst, msg []byte) ([]byte, error) {
			return append(dst, msg...), nil
		},
		MessageSize: largest,
		Compression: &websocket.Compression{MinSize: 1},
		Limits:      limits(),
		Logger:      logger(),
	}
}

// limits let in what the suite sends.
func limits() engine.Limits {
	return engine.Limits{FrameSize: largest, HardCap: 4 * largest}
}

func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

// onHTTP1 serves on http1.
func onHTTP1(e engine.Engine) func(net.Listener) func() error {
	return func(ln net.Listener) func() error {
		srv := &http1.Server{Handler: echoing(), Engine: e, Limits: limits(), Logger: logger()}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		return func() error {
			err := srv.Shutdown(context.Background())
			if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
				err = errors.Join(err, ended)
			}
			return err
		}
	}
}

// onPlain serves on net/http.
func onPlain(ln net.Listener) func() error {
	u := echoing()
	stop := onNetHTTP(u)(ln)
	return func() error { return errors.Join(stop(), u.Shutdown(context.Background())) }
}

// honeClient is websocket.Dial.
func honeClient(ctx context.Context, url string, hear func([]byte)) error {
	c, err := websocket.Dial(ctx, url, websocket.Options{MessageSize: largest, Compression: &websocket.Compression{MinSize: 1}})
	if err != nil {
		return err
	}
	defer c.Close(websocket.NormalClosure, "")
	var message []byte
	for {
		var kind websocket.Kind
		if kind, message, err = c.Read(ctx, message[:0]); err != nil {
			return nil
		}
		if hear != nil {
			hear(message)
		} else if c.Write(ctx, kind, message) != nil {
			return nil
		}
	}
}
