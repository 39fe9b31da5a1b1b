//go:build !linux

package main

import "log"

func main() { log.Fatal("epoll needs Linux") }
