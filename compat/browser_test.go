//go:build linux

package compat

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// browser is the one that all tests share, once one of them needs it.
type browser struct {
	once    sync.Once
	ctx     context.Context
	cancels []context.CancelFunc
	err     error
	home    string
}

var shared browser

func (b *browser) start(program string) {
	b.once.Do(func() {
		if b.home, b.err = os.MkdirTemp("", "apps-"); b.err != nil {
			return
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(b.home),
			chromedp.WSURLReadTimeout(4*patience), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-gpu", true),
			chromedp.Flag("ignore-certificate-errors", true))
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
		os.RemoveAll(b.home) // what a browser still writes there is the system's to remove
	}
}

const assets = 8

// site is a page with styles, scripts and pictures, an upload and a stream of events; it
// says in its title what it has.
func site() http.Handler {
	mux := http.NewServeMux()
	f := newFeed()
	for range 5 {
		f.publish()
	}
	mux.Handle("GET /events", f)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><meta charset="utf-8"><title>loading</title><link rel="icon" href="data:,">`)
		for i := range assets {
			fmt.Fprintf(w, `<link rel="stylesheet" href="style-%d.css"><script src="script-%d.js"></script><img src="picture-%d.svg">`, i, i, i)
		}
		fmt.Fprint(w, `<script>
addEventListener("load", async () => {
  let pictures = [...document.images].filter(p => p.naturalWidth == 7).length;
  let styles = [...Array(`, assets, `).keys()].filter(i => getComputedStyle(document.body).getPropertyValue("--s" + i) == i).length;
  let answer = await fetch("told", {method: "POST", body: "x".repeat(100000)});
  let told = (await answer.text()).length > 0 && answer.headers.get("X-Told").includes("read 100000 ");
  let seen = 0;
  new EventSource("events").onmessage = e => {
    if (e.data == "event " + seen) seen++;
    if (seen == 5) document.title = ["done", scripts, styles, pictures, told, seen].join(" ");
  };
});
</script>`)
	})
	mux.HandleFunc("GET /{name}", func(w http.ResponseWriter, r *http.Request) {
		var i int
		name := r.PathValue("name")
		switch {
		case scanned(name, "style-%d.css", &i):
			w.Header().Set("Content-Type", "text/css")
			fmt.Fprintf(w, "body { --s%d: %d }", i, i)
		case scanned(name, "script-%d.js", &i):
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "var scripts = (window.scripts || 0) + 1;")
		case scanned(name, "picture-%d.svg", &i):
			w.Header().Set("Content-Type", "image/svg+xml")
			fmt.Fprint(w, `<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>`)
		default:
			http.NotFound(w, r)
		}
	})
	mux.HandleFunc("POST /told", told)
	return mux
}

func scanned(name, format string, i *int) bool {
	_, err := fmt.Sscanf(name, format, i)
	return err == nil
}

// TestChromium has a browser load a page with all it needs.
func TestChromium(t *testing.T) {
	program := needs(t, "chromium")
	if testing.Short() {
		t.Skip("a browser takes long to start; run without -short")
	}
	shared.start(program)
	if shared.err != nil {
		t.Fatalf("chromium does not start: %v", shared.err)
	}
	sides := withTLS()
	over := sides[0]
	over.name, over.http2 = over.name+" over HTTP/2", true
	eachSide(t, append(sides, over), func(t *testing.T, on side) {
		s := serve(t, on, &http.Server{Handler: site()})
		ctx, cancel := chromedp.NewContext(shared.ctx)
		defer cancel()
		ctx, end := context.WithTimeout(ctx, 4*patience)
		defer end()
		var title string
		if err := chromedp.Do(ctx, chromedp.Navigate(s.url("/"))); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the page has what it needs", func() bool {
			got, err := chromedp.Run(ctx, chromedp.Title())
			if err != nil {
				t.Fatal(err)
			}
			title = got
			return title != "loading"
		})
		if want := fmt.Sprint("done ", assets, " ", assets, " ", assets, " true 5"); title != want {
			t.Errorf("the page says %q, want %q", title, want)
		}
		if on.http2 {
			hitNoLimit(t, s.http)
		}
	})
}
