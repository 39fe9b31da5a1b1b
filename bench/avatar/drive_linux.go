package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// patience bounds every answer.
const patience = 20 * time.Second

// verify asks for every picture once: all servers send the same bytes under the
// same headers.
func verify(addr string, want map[string]picture) error {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range pictures {
		resp, err := client.Get("http://" + addr + targetOf(i))
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		p := want[nameOf(i)+".png/"+strconv.Itoa(side)]
		if resp.StatusCode != 200 || !bytes.Equal(body, p.body) || resp.Header.Get("Etag") != p.tag || len(resp.Header) < 8 {
			return fmt.Errorf("GET %s: %s, %d bytes, %v", targetOf(i), resp.Status, len(body), resp.Header)
		}
	}
	return nil
}

// drive asks on some connections, one request after the other on each, and
// returns how many were answered.
func drive(ctx context.Context, addr string, conns int, d time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var (
		answered atomic.Uint64
		asking   sync.WaitGroup
		failed   atomic.Pointer[error]
	)
	for i := range conns {
		asking.Go(func() {
			n, err := ask(ctx, addr, i)
			answered.Add(n)
			if err != nil {
				failed.Store(&err)
				cancel()
			}
		})
	}
	asking.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return answered.Load(), nil
}

// ask asks on one connection until ctx ends.
func ask(ctx context.Context, addr string, first int) (n uint64, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	var requests [pictures][]byte
	for i := range requests {
		requests[i] = []byte("GET " + targetOf(i) + " HTTP/1.1\r\nHost: " + addr +
			"\r\nUser-Agent: bench\r\nAccept: image/png,image/*;q=0.8\r\nAccept-Encoding: gzip\r\n\r\n")
	}
	r := bufio.NewReader(conn)
	for i := first; ctx.Err() == nil; i++ {
		if _, err := conn.Write(requests[i%pictures]); err != nil {
			return n, err
		}
		if err := skipAnswer(r); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// skipAnswer reads an answer and wants a 200 with its length.
func skipAnswer(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("answered %q", line)
	}
	length := -1
	for {
		line, err = r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if key, value, ok := bytes.Cut(line, []byte(": ")); ok && bytes.EqualFold(key, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("no Content-Length")
	}
	_, err = r.Discard(length)
	return err
}
