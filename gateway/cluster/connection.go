package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// connect returns a connection to the cluster that never gives up, whatever the reason, and logs why
// it cannot connect.
func (o *Options) connect(servers string, said *troubles) (*nats.Conn, error) {
	// ReconnectBufSize -1: a publish without a connection fails immediately and is not buffered.
	options := []nats.Option{
		nats.Name("honed"), nats.Timeout(connectTime), nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectEvery), nats.ReconnectBufSize(-1),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut), nats.IgnoreDiscoveredServers(),
		nats.IgnoreAuthErrorAbort(), // an operator may be rotating credentials
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { said.trouble("cannot connect to the cluster", err) }),
		nats.ConnectHandler(func(nc *nats.Conn) { said.over("connected to the cluster", nc.ConnectedUrlRedacted()) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { said.over("connected to the cluster again", nc.ConnectedUrlRedacted()) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // else this process ends
				said.trouble("the connection to the cluster is lost", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			said.trouble("the cluster reports an error", err)
		}),
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.NKey != "" {
		option, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.NKey, err)
		}
		options = append(options, option)
	}
	if o.User != "" {
		if _, err := os.ReadFile(o.PasswordFile); err != nil {
			return nil, err
		}
		options = append(options, nats.UserInfoHandler(func() (user, password string) {
			text, err := os.ReadFile(o.PasswordFile) // again, since it may have been renewed
			if err != nil {
				said.trouble("cannot read the password for the cluster", err)
			}
			return o.User, string(bytes.TrimSpace(text))
		}))
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	if o.Cert != "" {
		options = append(options, nats.ClientCert(o.Cert, o.Key))
	}
	return nats.Connect(servers, options...)
}

// troubles logs what is wrong with the cluster: a new trouble at once, the same one again every
// repeatEvery, with the number of times that were left out.
type troubles struct {
	log *slog.Logger

	mu      sync.Mutex
	text    string
	at      time.Time
	leftOut int
	any     bool // since the last over
}

const repeatEvery = 30 * time.Second

func (t *troubles) trouble(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.any = true
	text := what + ": " + err.Error()
	if text == t.text && time.Since(t.at) < repeatEvery {
		t.leftOut++
		return
	}
	t.log.Warn(what, "err", err, "left_out", t.leftOut)
	t.text, t.at, t.leftOut = text, time.Now(), 0
}

// over logs that trouble is over, if there was any.
func (t *troubles) over(what, where string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.any {
		t.log.Info(what, "server", where)
	}
	t.any, t.text, t.leftOut = false, "", 0
}
