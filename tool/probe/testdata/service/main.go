// Service is a web service that has nothing to do with hone and shows its profiles.
// Its handler works and allocates a little; with -planted it works much more.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
)

var kept [][]byte

// early allocates before anybody looks.
//
//go:noinline
func early() {
	for range 64 {
		kept = append(kept, make([]byte, 1<<20))
	}
}

//go:noinline
func usual(block []byte) (sum [32]byte) {
	for range 20 {
		sum = sha256.Sum256(block)
	}
	return sum
}

//go:noinline
func planted(rounds int) (x uint32) {
	x = 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
	}
	return x
}

//go:noinline
func allocate() []byte { return make([]byte, 64<<10) }

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	rounds := flag.Int("planted", 0, "what the planted function does for each request")
	flag.Parse()
	early()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		sum := usual(allocate()[:4096])
		fmt.Fprintln(w, sum[0], planted(*rounds))
	})
	go http.Serve(listener, nil)
	fmt.Println(listener.Addr())
	io.Copy(io.Discard, os.Stdin) // until whoever started it is gone
}
