package main

import (
	"bytes"
	"io"
	"net/http"
)

// upper answers a body in upper case, whatever its transfer encoding.
func upper(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body is too large or does not arrive", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write(bytes.ToUpper(body))
}
