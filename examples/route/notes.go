package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/hone-go/hone/route"
)

// A service keeps notes in memory.
type service struct {
	mu    sync.Mutex // also guards log
	notes map[string][]string
	log   io.Writer
	late  sync.WaitGroup // work that continues after responses
}

// A note is the body of a response.
type note struct {
	ID   int    `json:"id"`
	User string `json:"user"`
	Text string `json:"text"`
}

func (s *service) routes() http.Handler {
	mux := new(route.Mux)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	users := mux.Group("/users/{user}", signedIn)
	users.HandleCtx("GET /notes/{id}", s.show)
	users.HandleCtx("POST /notes", s.add)
	return mux
}

// signedIn refuses requests without a user.
func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			http.Error(w, "send your user name in the Authorization header", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// mine returns the user in the path, if that is the user who sent the request.
func mine(c route.Ctx) (string, error) {
	user := c.Param("user")
	if c.Request().Header.Get("Authorization") != user {
		return "", &route.StatusError{Code: http.StatusForbidden, Text: "these notes belong to another user"}
	}
	return user, nil
}

func (s *service) show(c route.Ctx) error {
	user, err := mine(c)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(c.Param("id"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || id < 1 || id > len(s.notes[user]) {
		return &route.StatusError{Code: http.StatusNotFound, Text: "no such note"}
	}
	return c.JSON(http.StatusOK, note{id, user, s.notes[user][id-1]})
}

// longest is the longest note, in bytes.
const longest = 64 << 10

func (s *service) add(c route.Ctx) error {
	user, err := mine(c)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.Writer(), c.Request().Body, longest))
	if err != nil {
		return &route.StatusError{Code: http.StatusBadRequest, Text: "the note could not be read, or is longer than 64 KiB"}
	}
	s.mu.Lock()
	if s.notes == nil {
		s.notes = make(map[string][]string)
	}
	s.notes[user] = append(s.notes[user], string(text))
	n := note{len(s.notes[user]), user, string(text)}
	s.mu.Unlock()
	c.Set("note", n)
	s.tell(c.Detach())
	return c.JSON(http.StatusCreated, n)
}

// tell continues after the response, with a copy of the request.
func (s *service) tell(d route.Detached) {
	s.late.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := d.Get("note").(note)
		fmt.Fprintf(s.log, "%s wrote note %d from %s\n", d.Params.Get("user"), n.ID, d.Request.RemoteAddr)
	})
}
