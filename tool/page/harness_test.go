package page_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/page"
)

// patience bounds every wait of a test; browserTime, that for a browser.
const (
	patience    = 60 * time.Second
	browserTime = 60 * time.Second
)

// browser is shared by all tests and started by the first that needs it.
type browser struct {
	once    sync.Once
	ctx     context.Context
	cancels []context.CancelFunc
	err     error
	home    string
}

var shared browser

func TestMain(m *testing.M) {
	flag.String("page.shots", "", "write pictures of the page to this `FOLDER`")
	flag.String("page.url", "", "take pictures of the page at this `URL`, too")
	flag.Parse()
	code := m.Run()
	shared.close()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// start starts the browser.
func (b *browser) start(program string) {
	b.once.Do(func() {
		if b.home, b.err = os.MkdirTemp("", "hone-page-"); b.err != nil {
			return
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(b.home), chromedp.WSURLReadTimeout(browserTime),
			chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-gpu", true), chromedp.WindowSize(1280, 900))
		all, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(all, chromedp.WithErrorf(func(string, ...any) {}))
		b.ctx, b.cancels = ctx, []context.CancelFunc{end, stop}
		b.err = chromedp.Do(ctx)
	})
}

func (b *browser) close() {
	for _, cancel := range b.cancels {
		cancel()
	}
	if b.home != "" {
		os.RemoveAll(b.home) // a browser may still write there; the system cleans up
	}
}

// tab is one page in the browser, with its console errors.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	asked      []string // URLs requested
}

// openTab opens an empty page. Without HONE_TEST_ALL it skips the test.
func openTab(t *testing.T) *tab {
	t.Helper()
	if !testrun.All() {
		t.Skip("opens a browser, half a minute for all such tests; HONE_TEST_ALL=1 runs it")
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("install chromium, or run make deps")
	}
	shared.start(program)
	if shared.err != nil {
		t.Fatalf("chromium does not start: %v", shared.err)
	}
	ctx, cancel := chromedp.NewContext(shared.ctx)
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, 2*browserTime)
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	call(b, runtime.Enable, cdp.Empty{})
	return b
}

// hear records errors and requests.
func (b *tab) hear(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.complaints = append(b.complaints, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, fmt.Sprintf("%+v %+v", *e.ExceptionDetails, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if string(e.Type) == "error" || string(e.Type) == "warning" {
			b.complaints = append(b.complaints, fmt.Sprint(e.Type))
		}
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	}
}

// quiet fails the test if the page logged an error, or requested a URL outside origin.
func (b *tab) quiet(origin string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.t.Errorf("the page complains: %s", c)
	}
	for _, address := range b.asked {
		if !strings.HasPrefix(address, origin) && !strings.HasPrefix(address, "data:") && address != "about:blank" {
			b.t.Errorf("the page asked %s, which is not below %s", address, origin)
		}
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("in the browser: %v", err)
	}
}

// get runs an action that returns a value.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatalf("in the browser: %v", err)
	}
	return v
}

// call runs a command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
	return r
}

// eval evaluates an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// await polls until an expression is true. The page's policy forbids waiting inside it.
func (b *tab) await(expression string) {
	b.t.Helper()
	look := time.NewTicker(30 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(browserTime); !eval[bool](b, "Boolean("+expression+")"); <-look.C {
		if time.Now().After(deadline) {
			b.t.Fatalf("not after %v: %s; the page says %q", browserTime, expression, eval[string](b, "document.body.innerText.slice(0, 600)"))
		}
	}
}

// size sets the size of the page, and a dark or light theme.
func (b *tab) size(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// shot takes a screenshot if the flag asks for them.
func (b *tab) shot(name string) {
	b.t.Helper()
	folder := flag.Lookup("page.shots").Value.String()
	if folder == "" {
		return
	}
	b.settle()
	if err := os.WriteFile(filepath.Join(folder, name+".png"), get(b, chromedp.FullScreenshot(100)), 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// settle waits until pending changes are painted.
func (b *tab) settle() {
	b.t.Helper()
	painted := "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done(true))), 600))"
	get(b, chromedp.Evaluate[bool](painted, chromedp.EvalAwaitPromise))
}

// serve serves a page behind the guard until the test ends.
func serve(t *testing.T, p *page.Page, g *observe.Guard) string {
	t.Helper()
	ln, err := g.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, ln, p, g.Handler(p.Handler()))
}

func serveOn(t *testing.T, ln net.Listener, p *page.Page, h http.Handler) string {
	t.Helper()
	server := &http.Server{Handler: h, ReadTimeout: patience, WriteTimeout: patience}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		p.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("the page's readers do not leave: %v", err)
			server.Close()
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String() + "/"
}

// histogram returns response times around micros, with a tail.
func histogram(micros, n int64) *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, time.Hour.Nanoseconds(), 3)
	for i := range n {
		v := micros * 1000 * (60 + i*80/n) / 100
		if i%100 == 99 {
			v *= 2 + i%7
		}
		h.RecordValue(v)
	}
	return h
}

// second returns one second of a healthy load.
func second(n int64) page.Second {
	share := 0.31
	return page.Second{Progress: load.Progress{
		Phase: load.Measuring, Rate: 50_000 + float64(900*(n%5)), Conns: 100, CPUShare: &share,
		Latency: histogram(180+10*(n%4), 2000), Service: histogram(150, 2000),
	}}
}
