package observe_test

import (
	"log"
	"net/http"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/observe"
)

// A server, with its admin side on a separate listener.
func Example() {
	srv := &framed.Server{Addr: ":7000", Handler: framed.HandlerFunc(
		func(_ framed.Call, dst, req []byte) ([]byte, error) { return append(dst, req...), nil },
	)}
	admin := &observe.Admin{Stats: srv.Stats}
	private, err := admin.Listen("127.0.0.1:7070")
	if err != nil {
		log.Fatal(err)
	}
	go admin.Serve(private)
	log.Fatal(srv.ListenAndServe())
}

// The admin side below a path of an existing HTTP server.
func ExampleAdmin_Handler() {
	srv := &framed.Server{Addr: ":7000"}
	admin := &observe.Admin{
		Stats: srv.Stats,
		Token: "0123456789abcdef", // from a file; without a token, other machines get only /healthz, /metrics and /stats
		Hosts: []string{"service.example"},
	}
	http.NewServeMux().Handle("/admin/", http.StripPrefix("/admin", admin.Handler()))
}
