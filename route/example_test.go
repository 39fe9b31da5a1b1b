package route_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/hone-go/hone/route"
)

// A Mux accepts ServeMux's patterns, and three kinds of handlers.
func Example() {
	var mux route.Mux
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleParams("GET /users/{id}", func(w http.ResponseWriter, _ *http.Request, p route.Params) {
		fmt.Fprintf(w, "user %s", p.Get("id"))
	})
	mux.HandleCtx("GET /files/{path...}", func(c route.Ctx) error {
		if c.Param("path") == "" {
			return &route.StatusError{Code: http.StatusNotFound, Text: "say which file"}
		}
		return c.Text(http.StatusOK, "file "+c.Param("path"))
	})
	for _, target := range []string{"/health", "/users/17", "/files/a/b", "/files/", "/users"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		fmt.Printf("%d %s\n", w.Code, w.Body)
	}
	// Output:
	// 200 ok
	// 200 user 17
	// 200 file a/b
	// 404 say which file
	//
	// 404 404 page not found
}

// Replace replaces the table atomically while the Mux serves.
func ExampleMux_Replace() {
	version := func(n int) *route.Mux {
		var mux route.Mux
		mux.HandleCtx("GET /version", func(c route.Ctx) error { return c.Text(http.StatusOK, fmt.Sprint(n)) })
		return &mux
	}
	var mux route.Mux
	for n := range 2 {
		mux.Replace(version(n))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/version", nil))
		fmt.Println(w.Body)
	}
	// Output:
	// 0
	// 1
}

// Lookup returns what would happen to a request. Its values may be kept.
func ExampleMux_Lookup() {
	var mux route.Mux
	mux.HandleFunc("GET /users/{id}", func(http.ResponseWriter, *http.Request) {})
	for _, method := range []string{"HEAD", "PUT"} {
		found := mux.Lookup(httptest.NewRequest(method, "/users/17", nil))
		fmt.Printf("%q %q %q\n", found.Pattern, found.Params.Get("id"), found.Allow)
	}
	// Output:
	// "GET /users/{id}" "17" ""
	// "" "" "GET, HEAD"
}

// Error receives errors of handlers that have not answered.
func ExampleMux_HandleCtx() {
	mux := route.Mux{Error: func(c route.Ctx, err error) {
		fmt.Println("logged:", err)
		c.Text(http.StatusInternalServerError, "sorry")
	}}
	mux.HandleCtx("GET /", func(route.Ctx) error { return errors.New("out of notes") })
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// logged: out of notes
	// 500 sorry
}
