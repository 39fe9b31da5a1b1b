// Echo is a web service that was written for echo, ported to package route. before.txt is the
// original; docs/route.md compares the names.
package main

import (
	"io"
	"log"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/hone-go/hone/route"
)

type note struct {
	ID   int    `json:"id"`
	User string `json:"user"`
}

func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			http.Error(w, "sign in first", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func show(c route.Ctx) error {
	id, err := strconv.Atoi(c.Param("id"))
	if err != nil {
		return &route.StatusError{Code: http.StatusBadRequest, Text: "an id is a number"}
	}
	return c.JSON(http.StatusOK, note{id, c.Param("user")})
}

func add(c route.Ctx, last *atomic.Int64, told chan<- string) error {
	n := note{int(last.Add(1)), c.Param("user")}
	kept := c.Params() // values may be kept; a Ctx may not
	go func() { told <- kept.Get("user") }()
	return c.JSON(http.StatusCreated, n)
}

func newMux(told chan<- string) *route.Mux {
	last, mux := new(atomic.Int64), new(route.Mux)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	users := mux.Group("/users/{user}", signedIn)
	users.HandleCtx("GET /notes/{id}", show)
	users.HandleCtx("POST /notes", func(c route.Ctx) error { return add(c, last, told) })
	return mux
}

func main() {
	told := make(chan string)
	go func() {
		for user := range told {
			log.Println("a note of", user)
		}
	}()
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", newMux(told)))
}
