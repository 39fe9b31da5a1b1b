package main

import (
	"encoding/json"
	"log"
	"net/http"
	_ "net/http/pprof"
	"os"
)

type order struct {
	Items []string `json:"items"`
}

type sum struct {
	Cents int `json:"cents"`
}

func main() {
	s := open()
	http.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		cents, err := s.price(o.Items)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(sum{cents})
	})
	log.Fatal(http.ListenAndServe(os.Getenv("ADDR"), nil))
}
