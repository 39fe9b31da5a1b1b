package main

import "github.com/hone-go/hone/bench/streams/probe"

var _ = probe.Start()
