package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestService(t *testing.T) {
	told := make(chan string, 2)
	mux := newMux(told)
	for _, test := range []struct {
		method, path string
		signedIn     bool
		code         int
		body         string
	}{
		{"GET", "/health", false, 200, "ok\n"},
		{"GET", "/users/ann/notes/7", true, 200, `{"id":7,"user":"ann"}`},
		{"GET", "/users/ann/notes/7", false, 401, "sign in first"},
		{"GET", "/users/ann/notes/x", true, 400, "an id is a number"},
		{"POST", "/users/ann/notes", true, 201, `{"id":1,"user":"ann"}`},
		{"POST", "/users/bob/notes", true, 201, `{"id":2,"user":"bob"}`},
		{"DELETE", "/users/ann/notes", true, 405, ""},
		{"GET", "/users", true, 404, ""},
	} {
		r, w := httptest.NewRequest(test.method, test.path, nil), httptest.NewRecorder()
		if test.signedIn {
			r.Header.Set("Authorization", "me")
		}
		mux.ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.path, w.Code, w.Body, test.code, test.body)
		}
	}
	heard := map[string]bool{}
	for range 2 {
		select {
		case user := <-told:
			heard[user] = true
		case <-time.After(20 * time.Second):
			t.Fatal("the work after the responses was not done")
		}
	}
	if !heard["ann"] || !heard["bob"] {
		t.Errorf("it was done for %v, want ann and bob", heard)
	}
}
