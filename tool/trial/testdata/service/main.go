// Service is a web service that has nothing to do with hone, and can be told to
// be slower, or to fail.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	work := flag.Int("work", 1, "how often to hash a block for each request")
	dies := flag.Int64("dies", 0, "exit at this request")
	mute := flag.Bool("mute", false, "never listen")
	deaf := flag.Bool("deaf", false, "do not end when told to")
	flag.Parse()
	if *mute {
		fmt.Println("thinking")
		wait()
		return
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var requests atomic.Int64
	block := make([]byte, 4096)
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		if n := requests.Add(1); n == *dies {
			fmt.Fprintln(os.Stderr, "out of luck")
			os.Exit(3)
		}
		var sum [32]byte
		for range *work {
			sum = sha256.Sum256(block)
			copy(block[:0], sum[:])
		}
		fmt.Fprintf(w, "%x\n", sum)
	})
	go http.Serve(listener, nil)
	fmt.Println("serving on", listener.Addr())
	if *deaf {
		signal.Ignore(syscall.SIGTERM)
		select {}
	}
	wait()
}

func wait() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	<-end
}
