package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/child"
)

// ownedScenarios limit, stop and kill the server's process.
var ownedScenarios = []Scenario{
	{Name: "descriptors", Kinds: AllKinds, Access: Owned, Alone: true, Rests: 1200 * time.Millisecond, Attack: fewDescriptors,
		Title: "60 clients connect to a process that may open 20 descriptors more, then 10 more when it may open none; then all leave."},
	{Name: "sigterm-under-load", Kinds: AllKinds, Access: Owned, Alone: true, Attack: underLoad(terminate),
		Title: "The process gets SIGTERM while clients have requests in flight, some of HTTP with half a body."},
	{Name: "kill-under-load", Kinds: AllKinds, Access: Owned, Alone: true, Attack: underLoad(kill),
		Title: "The process is killed while clients have requests in flight, and started again at once."},
}

const (
	spareDescriptors = 20
	pressing         = 60                     // clients that want one
	latecomers       = 10                     // and more, when there is none
	exhausted        = 500 * time.Millisecond // how long each lasts
)

func fewDescriptors(ctx context.Context, a *Arena) Finding {
	used, ok := a.Server.Used()
	if !ok {
		return unknown("the process has ended")
	}
	friend, err := a.Open(ctx, (*target).Dial)
	if err == nil {
		err = friend.Ask()
	}
	if err != nil {
		return unknown("%s", plain(err))
	}
	restore, err := child.LeaveDescriptors(used.Busiest, spareDescriptors)
	if errors.Is(err, errors.ErrUnsupported) {
		return doesNotApply("this system cannot limit another process")
	} else if err != nil {
		return unknown("%s", plain(err))
	}
	asking, enough := context.WithCancel(ctx)
	defer enough()
	friendly := make(chan error, 1)
	go func() { // all the time: an idle one may be closed
		var err error
		for err == nil && !a.target.endless() && pause(asking, exhausted/4) {
			err = friend.Ask()
		}
		friendly <- err
	}()
	crowd := a.press(ctx, pressing)
	pause(ctx, exhausted)
	_, _ = child.LeaveDescriptors(used.Busiest, 0) // it fails if the process has ended, which is found below
	crowd = append(crowd, a.press(ctx, latecomers)...)
	pause(ctx, exhausted)
	share, busy := a.Server.busy(ctx, a.spins, 3*idleFor)
	_, alive := a.Server.Used()
	enough()
	asked := <-friendly
	how := fates(crowd)
	for _, c := range crowd {
		c.Close()
	}
	if err := restore(); err != nil || !alive {
		return falls("no descriptors were left")
	}
	switch {
	case asked != nil && !friend.closing:
		return falls("%s; a client from before is not served: %s", how, plain(asked))
	case busy:
		return falls("%s; it uses %.0f %% of a CPU while it has no descriptors", how, 100*share)
	}
	return survives("%s; clients from before are served, and it uses %.0f %% of a CPU", how, 100*share)
}

// press connects n clients at once, each with a request. That this fails is one of the things to
// find out, by what follows.
func (a *Arena) press(ctx context.Context, n int) []*Conn {
	return slices.DeleteFunc(atOnce(n, func(int) *Conn {
		c, err := a.Open(ctx, (*target).Dial)
		if err != nil {
			return nil
		}
		_, _ = c.Write(c.Request(nil)) // it may be closed already
		return c
	}), func(c *Conn) bool { return c == nil })
}

// fates says what has become of a crowd.
func fates(crowd []*Conn) string {
	served, waiting, away := 0, 0, pressing+latecomers-len(crowd)
	for _, c := range crowd {
		err := c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if err == nil {
			err = c.answer(c.Conn)
		}
		switch {
		case err == nil:
			served++
		case isTimeout(err):
			waiting++
		default:
			away++
		}
	}
	return fmt.Sprintf("%d were served, %d waited, %d were turned away", served, waiting, away)
}

// loaded is a load whose server is about to end.
type loaded struct {
	mu        sync.Mutex
	truncated int           // connections that ended within an answer
	broken    int           // that ended with requests unanswered, and no announcement
	silence   time.Duration // the longest wait for an answer or an end
	clients   sync.WaitGroup
}

const loadClients = 16

// load keeps requests in flight on several connections, until they end, and returns when it has done
// so for a while.
func (a *Arena) load(ctx context.Context) (*loaded, error) {
	crowd, err := a.Crowd(ctx, loadClients, (*target).Dial, saysNothing)
	if err != nil {
		return nil, err
	}
	l := new(loaded)
	for _, c := range crowd {
		l.clients.Go(func() { l.ask(ctx, c, time.Second+a.Stop) })
	}
	pause(ctx, a.Answer/4)
	return l, nil
}

// ask asks on one connection until it ends.
func (l *loaded) ask(ctx context.Context, c *Conn, patience time.Duration) {
	stop := context.AfterFunc(ctx, func() { c.tcp.Close() })
	defer stop()
	for {
		began := time.Now()
		got, err := c.exchange(c.Request(nil), began.Add(patience))
		if err == nil {
			err = c.known.check(got)
		}
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		l.silence = max(l.silence, time.Since(began))
		switch {
		case err == nil, c.closing:
		case len(c.in)+len(c.raw) > 0:
			l.truncated++
		default:
			l.broken++
		}
		l.mu.Unlock()
		if err != nil || c.closing { // or a stream has begun
			return
		}
	}
}

// underLoad returns an attack on the process of a server that is under load.
func underLoad(do func(ctx context.Context, a *Arena, l *loaded, process *child.Child) Finding) attackFunc {
	return func(ctx context.Context, a *Arena) Finding {
		l, err := a.load(ctx)
		if err != nil {
			return unknown("%v", err)
		}
		defer l.clients.Wait()
		defer a.close() // which ends them
		return do(ctx, a, l, a.Server.child.Load())
	}
}

// terminate sends SIGTERM. A server that drains answers or refuses what it has read; a client whose
// request crosses its connection's end is no loss.
func terminate(ctx context.Context, a *Arena, l *loaded, process *child.Child) Finding {
	held := a.hold(ctx)
	l.mu.Lock()
	usual := l.silence
	l.silence = 0
	l.mu.Unlock()
	began := time.Now()
	process.Terminate()
	lost := 0
	l.clients.Go(func() {
		pause(ctx, heldFor)
		lost = cut(held)
	})
	select {
	case <-process.Ended():
	case <-time.After(a.Stop):
		process.Kill()
	case <-ctx.Done():
		return unknown("interrupted")
	}
	took := time.Since(began)
	l.clients.Wait()
	found := survives("SIGTERM: ended after %s; %d of %d clients saw their connection end without an announcement", elapsed(took), l.broken, loadClients)
	switch {
	case took >= a.Stop:
		found = falls("does not end within %v of SIGTERM", a.Stop)
	case l.silence >= max(time.Second, silentTimes*usual):
		found = falls("SIGTERM: ended after %s, and clients waited up to %s for an answer or an end", elapsed(took), elapsed(l.silence))
	case l.truncated > 0:
		found = falls("SIGTERM: ended after %s, and cut %d answers short", elapsed(took), l.truncated)
	case l.broken > 0 && endedBySignal(process.How()):
		found = falls("SIGTERM: the signal ended it at once, with the requests of %d of %d clients unanswered: it does not drain", l.broken, loadClients)
	case lost > 0:
		found = falls("SIGTERM: ended after %s; %d of %d requests in flight were cut, whose last bytes came %v after it", elapsed(took), lost, len(held), heldFor)
	}
	if err := a.Server.start(ctx); err != nil {
		return falls("%s; it cannot be started again: %s", found.Words, plain(err))
	}
	return found
}

const (
	heldRequests = 8
	heldFor      = 500 * time.Millisecond
)

// hold keeps requests in flight whose bodies are not complete. It returns none if the server does not
// wait for bodies, or refuses them: one is tried before.
func (a *Arena) hold(ctx context.Context) []*Conn {
	if a.target.kind != HTTP || a.target.endless() {
		return nil
	}
	crowd, err := a.Crowd(ctx, 1+heldRequests, (*target).Dial, func(c *Conn, _ int) error {
		head, body, _ := bytes.Cut(c.Request(nil), []byte("\r\n\r\n"))
		if !bytes.Contains(head, []byte("\r\nContent-Length:")) {
			head, body = append(head, "\r\nContent-Length: 4"...), []byte("hone")
		}
		half := len(body) / 2
		if c.rest = body[half:]; half == 0 {
			return errors.ErrUnsupported
		}
		_, err := c.Write(slices.Concat(head, []byte("\r\n\r\n"), body[:half]))
		return err
	})
	if err != nil {
		return nil
	}
	pause(ctx, heldFor)
	if early := crowd[0].answered(time.Millisecond); early || cut(crowd[:1]) > 0 {
		a.Note("no requests of HTTP were in flight: one with half a body was answered early (%v), or not at all", early)
		return nil
	}
	return crowd[1:]
}

// cut sends what is left of requests, and counts those without an answer.
func cut(held []*Conn) (n int) {
	for _, c := range held {
		_, _ = c.Write(c.rest) // if that fails, no answer comes
		if !c.answered(c.arena.Answer) {
			n++
		}
	}
	return n
}

// endedBySignal reports whether a process has not handled SIGTERM: the signal ended it, itself or
// below a shell, which then returns 128 and the signal's number.
func endedBySignal(err error) bool {
	how := new(exec.ExitError)
	const belowShell = 128 + 15
	return errors.As(err, &how) && (how.ExitCode() < 0 || how.ExitCode() == belowShell)
}

func kill(ctx context.Context, a *Arena, _ *loaded, process *child.Child) Finding {
	process.Kill()
	select {
	case <-process.Ended():
	case <-ctx.Done():
		return unknown("interrupted")
	}
	began := time.Now()
	if err := a.Server.start(ctx); err != nil {
		return falls("cannot be started again after it was killed: %s", plain(err))
	}
	started := time.Since(began)
	if err := a.Healthy(ctx); err != nil {
		return falls("does not serve after it was killed and started again: %s", plain(err))
	}
	return survives("killed and started again: serves after %s", elapsed(started))
}
