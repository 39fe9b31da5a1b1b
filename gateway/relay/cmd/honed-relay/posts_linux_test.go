package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
)

// TestPostgresPosts: what a post says of itself is in the table.
func TestPostgresPosts(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	addr, posts := freeAddr(t), freeAddr(t)
	startHoned(t, binary(t), addr, filepath.Join(t.TempDir(), "log"), "--http", posts)
	resp, err := http.Post("http://"+posts+"/v1/meter/site/7", "text/plain", strings.NewReader("21.5"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	r := d.relay(addr, t.TempDir())
	eventually(t, "the post", func() bool {
		return d.ask("select client || ' ' || topic || ' ' || content_type || ' ' || convert_from(data, 'UTF8') from hone_messages") == "meter site/7 text/plain 21.5"
	})
	r.stop()
}

// TestKafkaPosts: topic and content type are headers of their own.
func TestKafkaPosts(t *testing.T) {
	m := message{Message: gateway.Message{Record: journal.Record{Client: "c", Attributes: []journal.Attribute{
		{Kind: journal.Topic, Value: []byte("t")}, {Kind: journal.ContentType, Value: []byte("text/plain")}, {Kind: journal.Property, Value: []byte("\x01nv")},
	}}}}
	var got []string
	for _, h := range m.record().Headers {
		got = append(got, fmt.Sprintf("%s=%s", h.Key, h.Value))
	}
	for _, want := range []string{"hone-topic=t", "content-type=text/plain", `hone-attributes=[{"kind":4,"value":"AW52"}]`} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
}
