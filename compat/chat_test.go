//go:build linux

package compat

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/hone-go/hone/tool/child"
)

var shots = flag.String("shots", "", "write pictures of the chat to this `folder`")

// TestChat has people talk in examples/chat, each with a browser's tab: their server is
// killed and comes back, and nothing is lost or doubled.
func TestChat(t *testing.T) {
	program := needs(t, "chromium")
	if testing.Short() {
		t.Skip("a browser takes long to start; run without -short")
	}
	shared.start(program)
	if shared.err != nil {
		t.Fatalf("chromium does not start: %v", shared.err)
	}
	s := newChatServer(t)
	ann, bob := newChatter(t, s.front), newChatter(t, s.front)
	ann.shot("door")
	ann.joins("Ann", "lobby")
	ann.await(`$("people").title === "only you"`)
	ann.says("Is anybody here?")
	bob.joins("Bob", "lobby")
	bob.sees("1 Ann Is anybody here?")
	ann.await(`$("people").title === "2 people: Ann, Bob"`)
	bob.says("Me. <b>Hello</b>, Ann!")
	for _, c := range []*chatter{ann, bob} {
		c.sees("1 Ann Is anybody here?", "2 Bob Me. <b>Hello</b>, Ann!")
	}

	s.kill()
	for _, c := range []*chatter{ann, bob} {
		c.await(`document.getElementById("status").dataset.state === "off"`)
	}
	ann.says("Did you see that?")
	ann.says("The server is gone.")
	ann.await(`document.querySelectorAll("#log .waiting").length === 2`)
	ann.shot("outage")
	s.start()
	all := []string{
		"1 Ann Is anybody here?", "2 Bob Me. <b>Hello</b>, Ann!",
		"3 Ann Did you see that?", "4 Ann The server is gone.",
	}
	for _, c := range []*chatter{ann, bob} {
		c.await(`document.getElementById("status").dataset.state === "on"`)
		c.sees(all...)
	}

	// Connections that break beside a running server: what was said meanwhile comes to
	// those who missed it, and what was said twice comes once.
	bob.breaks()
	ann.says("Still here?")
	all = append(all, "5 Ann Still here?")
	ann.sees(all...)
	bob.reconnects()
	bob.sees(all...)
	ann.eval(`write.elements.text.value = "Once.", write.requestSubmit(), socket.close(), connect()`)
	all = append(all, "6 Ann Once.")
	for _, c := range []*chatter{ann, bob} {
		c.sees(all...)
	}

	// Who comes later, and who loads the page anew, reads what was said before; another room
	// is another talk.
	eve := newChatter(t, s.front)
	eve.joins("Eve", "lobby")
	eve.sees(all...)
	bob.do(chromedp.Navigate(s.front))
	bob.sees(all...)
	dan := newChatter(t, s.front)
	dan.joins("Dan", "garden")
	dan.says("It is quiet here.")
	dan.sees("1 Dan It is quiet here.")
	eve.says("Good night.")
	all = append(all, "7 Eve Good night.")
	for _, c := range []*chatter{ann, bob, eve} {
		c.await(`$("people").title === "3 people: Ann, Bob, Eve"`)
		c.sees(all...)
	}
	const long = "One room, three people, one server that was killed and started again: and every message came once, with its number, in the same order for all of us.\nGood night!"
	ann.says(long)
	all = append(all, "8 Ann "+long)
	for _, c := range []*chatter{ann, bob, eve} {
		c.sees(all...)
	}
	for _, view := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"light", 1100, 760, false}, {"dark", 1100, 760, true}, {"phone-light", 390, 760, false}, {"phone-dark", 390, 760, true}} {
		eve.size(view.width, view.height, view.dark)
		eve.await(`log.scrollTop = log.scrollHeight`)
		if wide := eve.text(`String(document.documentElement.scrollWidth)`); wide != fmt.Sprint(view.width) {
			t.Errorf("%s: the page is %s wide, want %d", view.name, wide, view.width)
		}
		eve.shot(view.name)
	}
	dan.sees("1 Dan It is quiet here.")

	// A server that has forgotten everything says so.
	s.kill()
	s.file = ""
	s.start()
	ann.await(`log.lastElementChild.textContent.includes("new history")`)
	eve.says("We begin anew.")
	ann.sees(append(all, "1 Eve We begin anew.")...)
	for _, c := range []*chatter{ann, bob, eve, dan} {
		c.quiet()
	}
}

// chatServer is examples/chat in a process that can be killed, behind an address that
// stays.
type chatServer struct {
	t       *testing.T
	front   string // the page's URL
	program string
	file    string
	life    context.CancelFunc
	child   *child.Child

	mu   sync.Mutex
	addr string // "" when it is dead
}

func newChatServer(t *testing.T) *chatServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	s := &chatServer{
		t: t, front: "http://" + ln.Addr().String() + "/",
		program: filepath.Join(folder, "chat"), file: filepath.Join(folder, "chat.jsonl"),
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.program, "github.com/hone-go/hone/examples/chat").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var forwarding sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		if s.child != nil {
			s.kill()
		}
		forwarding.Wait()
	})
	forwarding.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			forwarding.Go(func() { s.forward(nc) })
		}
	})
	s.start()
	return s
}

// start starts the program. It has the address of a page again when it returns.
func (s *chatServer) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	said := make(chan string, 1)
	c, err := child.Start(exec.CommandContext(ctx, s.program, "-addr", "127.0.0.1:0", "-history", s.file), child.Options{Said: func(line []byte) {
		var addr string
		if n, _ := fmt.Sscanf(string(line), "listening on %s", &addr); n == 1 {
			said <- addr
		}
	}})
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	s.child, s.life = c, cancel
	select {
	case addr := <-said:
		s.mu.Lock()
		s.addr = addr
		s.mu.Unlock()
	case <-c.Ended():
		s.t.Fatalf("the chat ends: %s", c.Said())
	case <-time.After(patience):
		s.t.Fatalf("the chat says no address: %s", c.Said())
	}
}

// kill kills the program.
func (s *chatServer) kill() {
	s.mu.Lock()
	s.addr = ""
	s.mu.Unlock()
	s.life()
	<-s.child.Ended()
}

// forward connects a client with the program, as long as both want.
func (s *chatServer) forward(client net.Conn) {
	defer client.Close()
	s.mu.Lock()
	addr := s.addr
	s.mu.Unlock()
	server, err := net.Dial("tcp", addr)
	if addr == "" || err != nil {
		return
	}
	defer server.Close()
	var one sync.WaitGroup
	one.Go(func() {
		io.Copy(server, client)
		server.Close()
	})
	io.Copy(client, server)
	client.Close()
	one.Wait()
}

// chatter is somebody with a browser.
type chatter struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	thrown  []string // what the page's script failed of
	fetched []string
	front   string
}

// newChatter opens the page in a tab of its own browser session, so that nobody is
// remembered from another.
func newChatter(t *testing.T, front string) *chatter {
	t.Helper()
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, 8*patience)
	t.Cleanup(end)
	c := &chatter{t: t, ctx: ctx, front: front}
	if err := chromedp.Listen(ctx, c.hear); err != nil {
		t.Fatal(err)
	}
	for _, enable := range []error{
		called(ctx, network.Enable, network.EnableParams{}),
		called(ctx, runtime.Enable, cdp.Empty{}),
	} {
		if enable != nil {
			t.Fatal(enable)
		}
	}
	c.size(1100, 760, false)
	c.do(chromedp.Navigate(front))
	return c
}

func called[P, R any](ctx context.Context, command cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, command, params)
	return err
}

func (c *chatter) hear(e any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		c.thrown = append(c.thrown, fmt.Sprintf("%+v %+v", *e.ExceptionDetails, e.ExceptionDetails.Exception))
	case *network.EventRequestWillBeSent:
		c.fetched = append(c.fetched, e.Request.URL)
	}
}

// quiet fails the test if the page's script failed, or it loaded anything from elsewhere.
func (c *chatter) quiet() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range c.thrown {
		c.t.Errorf("the page fails: %s", what)
	}
	for _, address := range c.fetched {
		if !strings.HasPrefix(address, c.front) {
			c.t.Errorf("the page asked for %s, which is not below %s", address, c.front)
		}
	}
}

func (c *chatter) do(actions ...chromedp.Action[chromedp.Void]) {
	c.t.Helper()
	if err := chromedp.Do(c.ctx, actions...); err != nil {
		c.t.Fatalf("in the browser: %v", err)
	}
}

func (c *chatter) eval(script string) { c.t.Helper(); c.text("String(" + script + ")") }

// text is an expression's value.
func (c *chatter) text(expression string) string {
	c.t.Helper()
	v, err := chromedp.Run(c.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		c.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// await waits until an expression is true.
func (c *chatter) await(expression string) {
	c.t.Helper()
	eventually(c.t, expression, func() bool { return c.text("String(Boolean("+expression+"))") == "true" })
}

// joins types a name and a room.
func (c *chatter) joins(name, room string) {
	c.t.Helper()
	c.do(chromedp.SetValue("[name=name]", name), chromedp.SetValue("[name=room]", room), chromedp.Click("#enter button"))
	c.await(`document.getElementById("status").dataset.state === "on"`)
}

// says types a message.
func (c *chatter) says(text string) {
	c.t.Helper()
	first, rest, two := strings.Cut(text, "\n")
	c.do(chromedp.SendKeys("[name=text]", first))
	if two {
		c.presses(8) // Shift
		c.do(chromedp.SendKeys("[name=text]", rest))
	}
	c.presses(0)
	c.await(`write.elements.text.value === ""`)
}

// presses presses Enter.
func (c *chatter) presses(modifiers int64) {
	c.t.Helper()
	enter := input.DispatchKeyEventParams{Type: "keyDown", Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13, Modifiers: modifiers}
	err := called(c.ctx, input.DispatchKeyEvent, enter)
	enter.Type, enter.Text = "keyUp", ""
	if err = cmp.Or(err, called(c.ctx, input.DispatchKeyEvent, enter)); err != nil {
		c.t.Fatal(err)
	}
}

// sees waits for as many messages, and wants exactly those, in this order.
func (c *chatter) sees(want ...string) {
	c.t.Helper()
	var shown []string
	eventually(c.t, fmt.Sprintf("%d messages are there", len(want)), func() bool {
		list := c.text(`JSON.stringify([...log.querySelectorAll("li:not(.note):not(.waiting)")].map(li => li.dataset.number + " " + li.message.name + " " + li.querySelector(".text").textContent))`)
		if err := json.Unmarshal([]byte(list), &shown); err != nil {
			c.t.Fatal(err)
		}
		return len(shown) >= len(want)
	})
	if !slices.Equal(shown, want) {
		c.t.Errorf("the page shows\n%q\nwant\n%q", shown, want)
	}
	if waiting := c.text(`String(log.querySelectorAll(".waiting").length)`); waiting != "0" {
		c.t.Errorf("%s messages wait to be sent", waiting)
	}
}

// breaks cuts the network off from this tab, and reconnects gives it back.
func (c *chatter) breaks() {
	c.t.Helper()
	c.eval(`window.connectAgain = connect, connect = () => {}, socket.close()`)
	c.await(`document.getElementById("status").dataset.state === "off"`)
}

func (c *chatter) reconnects() {
	c.t.Helper()
	c.eval(`connect = window.connectAgain, connect()`)
}

// size makes the tab so large, dark or light.
func (c *chatter) size(width, height int64, dark bool) {
	c.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	err := called(c.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
	if err == nil {
		err = called(c.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// shot writes a picture, if somebody wants them.
func (c *chatter) shot(name string) {
	c.t.Helper()
	if *shots == "" {
		return
	}
	picture, err := chromedp.Run(c.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o666)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
