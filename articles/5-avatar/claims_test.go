package avatar_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"golang.org/x/image/math/fixed"

	"github.com/hone-go/hone/articles/5-avatar/draw"
	"github.com/hone-go/hone/articles/claim"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/probe"
)

// plan is wrk -c400.
func plan() load.Plan { return load.Plan{Conns: 400, AllowErrors: true} }

func TestClaimCaches(t *testing.T) {
	claim.Slow(t)
	for _, step := range []struct {
		from, to string
		gain     float64
		why      string
	}{
		{"each", "images", 1204.01 / 897.54, "It saves parsing the font and drawing; encoding stays."},
		{"images", "bytes", 22_889.01 / 1204.01, "The article's insight: image/png compresses for each request."},
		{"bytes", "unlogged", 42_849.74 / 22_889.01, "Two lines per request to a file. The article does not say where its log went."},
		{"unlogged", "http1", 0, "One change: the server."},
		{"http1", "hone", 0, "Ours, with ETag and limits, against the article's handler on http1."},
		{"unlogged", "hone", 0, "Ours against the article's last step."},
	} {
		report := claim.Servers(t, step.from, step.to, claim.Web("/avatar/a"), plan())
		claim.Gain(t, report, "rate", step.gain, step.why)
		claim.Gain(t, report, "server CPU", step.gain, "The same without the load generator.")
	}
}

func TestClaimEncoding(t *testing.T) {
	claim.Slow(t)
	s := claim.Start(t, "images")
	loaded := plan()
	loaded.Target = codec.HTTP{URL: "http://" + s.Addr + "/avatar/a"}
	share := s.Shares(t, probe.CPU, true, loaded, "image/png.(*Encoder).Encode")
	claim.Log(t, "images: encoding PNG, of the CPU", share, "%", 0, claim.If(share > 50), "What the article's second profile shows.")
}

// TestFaults shows faults of the article's service, and that hone's has none of them.
func TestFaults(t *testing.T) {
	client := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(client.CloseIdleConnections)
	get := func(s *claim.Stage, name string) []byte {
		resp, err := client.Get("http://" + s.Addr + "/avatar/" + name)
		if err != nil {
			return nil
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	article, hone := claim.Start(t, "bytes"), claim.Start(t, "hone")
	if adam, ann := get(article, "Adam"), get(article, "Ann"); !bytes.Equal(adam, ann) {
		t.Error("the article's cache has another key than the initials: the fault is not rebuilt")
	}
	if adam, ann := get(hone, "Adam"), get(hone, "Ann"); bytes.Equal(adam, ann) {
		t.Error("Ann has Adam's colour")
	}
	if get(article, "%20") != nil {
		t.Error("a blank name does not panic: the fault is not rebuilt")
	}
	if get(hone, "%20") == nil {
		t.Error("hone does not answer a blank name")
	}
}

// TestSharedFace shows why the stages lock their font face: it draws every letter into the same memory.
func TestSharedFace(t *testing.T) {
	d, err := draw.New(128)
	if err != nil {
		t.Fatal(err)
	}
	_, adams, at, _, _ := d.Face.Glyph(fixed.Point26_6{}, 'A')
	mask := func() (all []byte) {
		for y := range 40 {
			for x := range 40 {
				_, _, _, a := adams.At(at.X+x, at.Y+y).RGBA()
				all = append(all, byte(a>>8))
			}
		}
		return all
	}
	before := mask()
	d.Face.Glyph(fixed.Point26_6{}, 'W')
	if bytes.Equal(before, mask()) {
		t.Error("Adam's letter is still his")
	}
}
