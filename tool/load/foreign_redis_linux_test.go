package load

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// startRedis starts Redis on a socket in a separate folder, without persistence.
func startRedis(t *testing.T) codec.Messages {
	t.Helper()
	dir := shortFolder(t)
	socket := dir + "/s"
	startForeign(t, exec.CommandContext(context.Background(), foreign(t, "redis-server", "redis-server"),
		"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no"))
	eventually(t, "Redis does not answer", func() bool {
		nc, err := net.Dial("unix", socket)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	return codec.Messages{Network: "unix", Address: socket}
}

// redisCounts are the counters of Redis up to the command that reads them, which counts, too.
type redisCounts struct{ commands, failures int64 }

func countsOfRedis(t *testing.T, at codec.Messages) redisCounts {
	t.Helper()
	said := askRedis(t, at, "INFO stats")
	count := func(name string) int64 {
		_, rest, _ := strings.Cut(said, "\r\n"+name+":")
		digits, _, _ := strings.Cut(rest, "\r\n")
		return must[int64](t)(strconv.ParseInt(digits, 10, 64))
	}
	return redisCounts{count("total_commands_processed"), count("total_error_replies")}
}

// askRedis returns the answer to a command: one line, or text preceded by its length.
func askRedis(t *testing.T, at codec.Messages, command string) string {
	t.Helper()
	nc := must[net.Conn](t)(net.Dial("unix", at.Address))
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	must[int](t)(io.WriteString(nc, command+"\r\n"))
	in := bufio.NewReader(nc)
	line := must[string](t)(in.ReadString('\n'))
	digits, long := strings.CutPrefix(strings.TrimSuffix(line, "\r\n"), "$")
	if !long {
		return line
	}
	text := make([]byte, must[int](t)(strconv.Atoi(digits)))
	must[int](t)(io.ReadFull(in, text))
	return string(text)
}

// Redis has received exactly the commands that were counted.
func TestForeignRedis(t *testing.T) {
	sideBySide(t)
	redis := startRedis(t)
	if said := askRedis(t, redis, "SET word hone"); said != "+OK\r\n" {
		t.Fatalf("Redis says %q", said)
	}
	for _, c := range []struct {
		name, command, expect string
		fails, refused        bool // by the command, or before it is one
	}{
		{name: "answer", command: "PING", expect: "+PONG"},
		{name: "error", command: "INCR word", expect: ":1", fails: true},
		{name: "no command", command: "HONE", expect: "+OK", fails: true, refused: true},
	} {
		for _, p := range []Plan{
			{Conns: 4}, {Conns: 4, Depth: 16}, {Conns: 4, Depth: 16, Rate: 1000, MaxLag: time.Second},
		} {
			t.Run(c.name, func(t *testing.T) {
				p.Target, p.Content, p.Expect, p.Requests = redis, []byte(c.command), []byte(c.expect), 300
				before := countsOfRedis(t, redis)
				r := measured(t, p)
				after := countsOfRedis(t, redis)
				var want redisCounts
				if !c.refused {
					want.commands = r.Requests
				}
				if c.fails {
					want.failures = r.Requests
				}
				got := redisCounts{after.commands - before.commands - 1, after.failures - before.failures}
				if t.Logf("%d requests, errors %v, Redis %+v", r.Requests, r.Errors, got); got != want || r.Requests == 0 {
					t.Errorf("%d requests counted; Redis has had %+v, want %+v", r.Requests, got, want)
				}
				if r.Errors["total"] != want.failures || r.Errors["wrong_content"] != want.failures {
					t.Errorf("errors %v, want %d of wrong content", r.Errors, want.failures)
				}
			})
		}
	}
}

// Redis has received exactly the commands that were counted, with answers of every kind, and each error is
// one failed request.
func TestForeignRedisCommands(t *testing.T) {
	sideBySide(t)
	redis := startRedis(t)
	redis.Framing = framing(t, "resp")
	for _, command := range []string{"SET word hone", "RPUSH list a b c"} {
		askRedis(t, redis, command)
	}
	for _, c := range []struct {
		command, expect string
		fails           bool
	}{
		{"GET word", "hone", false}, {"GET none", "$-1", false}, {"LRANGE list 0 -1", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc", false},
		{"*2\r\n$3\r\nGET\r\n$4\r\nword\r\n", "hone", false}, {"INCR word", "", true}, {"GET word", "other", true},
	} {
		p := Plan{Target: redis, Conns: 4, Depth: 16, Content: []byte(c.command), Expect: []byte(c.expect), Requests: 300}
		before := countsOfRedis(t, redis)
		r := measured(t, p)
		after := countsOfRedis(t, redis)
		if got := after.commands - before.commands - 1; got != r.Requests || r.Requests == 0 {
			t.Errorf("%q: %d requests counted, %d received", c.command, r.Requests, got)
		}
		if failed := r.Errors["total"]; failed != map[bool]int64{true: r.Requests}[c.fails] {
			t.Errorf("%q: errors %v", c.command, r.Errors)
		}
	}
}
