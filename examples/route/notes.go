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
	mu    sync.Mutex // also of log
	notes map[string][]string
	log   io.Writer
	late  sync.WaitGroup // what handlers have left to do
}

// A note is what is answered.
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

// signedIn refuses those who do not say who they are.
func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			http.Error(w, "say who you are in the Authorization header", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// mine is the user whose notes are asked for, if that is who asks.
func mine(c route.Ctx) (string, error) {
	user := c.Param("user")
	if c.Request().Header.Get("Authorization") != user {
		return "", &route.StatusError{Code: http.StatusForbidden, Text: "these notes are somebody else's"}
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

// longest is how many bytes a note may have.
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

// tell goes on when the request has been answered, with a copy of it.
func (s *service) tell(d route.Detached) {
	s.late.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := d.Get("note").(note)
		fmt.Fprintf(s.log, "%s wrote note %d from %s\n", d.Params.Get("user"), n.ID, d.Request.RemoteAddr)
	})
}
