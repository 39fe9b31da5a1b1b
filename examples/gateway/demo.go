package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/hone-go/hone/framed"
)

const (
	talkTime  = 2 * time.Second
	demoLimit = 20 * time.Second // for the whole demo, even on a busy machine
)

// demo lets three devices talk to each other and prints what happens.
func demo(ctx context.Context, g *gateway, srv *framed.Server, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	var ended error
	var server sync.WaitGroup
	server.Go(func() { ended = serve(serving, srv, ln) })
	fmt.Fprintf(stdout, "a gateway on %v\n", ln.Addr())
	err = play(ctx, ln.Addr().String(), g.secret, stdout)
	stop()
	server.Wait()
	if err = errors.Join(err, ended); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "\nthe server counted")
	report(stdout, g, srv)
	return nil
}

// play runs the devices.
func play(ctx context.Context, addr, secret string, stdout io.Writer) error {
	_, err := login(ctx, addr, "eve", secret+"?")
	fmt.Fprintf(stdout, "eve guesses the secret: %v\n", err)

	names := []string{"ann", "bob", "cyd"}
	var devices []*device
	for _, name := range names {
		d, err := login(ctx, addr, name, secret)
		if err != nil {
			return err
		}
		defer d.client.Close()
		devices = append(devices, d)
	}
	fmt.Fprintf(stdout, "ann, bob and cyd log in and talk to each other for %v\n", talkTime)
	if err := talk(ctx, devices, names); err != nil {
		return err
	}
	ann, bob := devices[0], devices[1]
	_, err = ann.client.Call(ctx, nil, []byte("to zoe are you there?"))
	fmt.Fprintf(stdout, "ann writes to zoe, who is not logged in: %v\n", err)

	again, err := login(ctx, addr, "bob", secret)
	if err != nil {
		return err
	}
	defer again.client.Close()
	select {
	case <-bob.client.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Fprintf(stdout, "bob logs in a second time; his first connection: %v\n\n", bob.client.Err())

	tab := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "device\tsent\theard\tthe first thing heard")
	for _, d := range devices {
		fmt.Fprintf(tab, "%s\t%d\t%d\t%q\n", d.name, d.sent, d.heard.Load(), *d.first.Load())
	}
	return tab.Flush()
}

// talk lets every device write to the others as fast as they answer.
func talk(ctx context.Context, devices []*device, names []string) error {
	until := time.Now().Add(talkTime)
	var all sync.WaitGroup
	failed := make(chan error, len(devices))
	for _, d := range devices {
		all.Go(func() { failed <- d.talk(ctx, names, until) })
	}
	all.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	sent, heard := 0, 0
	for _, d := range devices {
		// The answer to a heartbeat arrives after everything that was pushed before it.
		_, err := d.client.Connect(ctx, nil, nil)
		errs = append(errs, err)
		sent, heard = sent+d.sent, heard+int(d.heard.Load())
	}
	if sent != heard {
		errs = append(errs, fmt.Errorf("of %d messages, %d arrived", sent, heard))
	}
	return errors.Join(errs...)
}

// device is a client of the gateway.
type device struct {
	name   string
	client *framed.Client
	sent   int
	heard  atomic.Int64
	first  atomic.Pointer[string] // the first message it received
}

// login connects a device. Pushes arrive in OnDeliver, which must not wait for the client:
// it only records them.
func login(ctx context.Context, addr, name, secret string) (*device, error) {
	d := &device{name: name}
	d.first.Store(new(string))
	client, err := framed.Dial(ctx, addr, framed.ClientOptions{
		OnDeliver: func(_ uint64, content []byte) {
			if d.heard.Add(1) == 1 {
				said := string(content) // content is valid until the function returns
				d.first.Store(&said)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if _, err := client.Connect(ctx, nil, []byte(name+" "+secret)); err != nil {
		client.Close()
		return nil, err
	}
	d.client = client
	return d, nil
}

// talk writes to the other devices in turn.
func (d *device) talk(ctx context.Context, names []string, until time.Time) error {
	var message []byte
	for i := 0; time.Now().Before(until); i++ {
		name := names[i%len(names)]
		if name == d.name {
			continue
		}
		d.sent++
		message = fmt.Appendf(message[:0], "to %s this is message %d", name, d.sent)
		if _, err := d.client.Call(ctx, nil, message); err != nil {
			return fmt.Errorf("%s to %s: %w", d.name, name, err)
		}
	}
	return nil
}
