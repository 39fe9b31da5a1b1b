// Command redcon serves the commands that are compared on the address of its argument, with a map of its own as
// redcon's example has it.
package main

import (
	"log"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/redcon"
)

func main() {
	var mu sync.RWMutex
	values := make(map[string][]byte)
	log.Fatal(redcon.ListenAndServe(os.Args[1], func(conn redcon.Conn, cmd redcon.Command) {
		switch command := strings.ToUpper(string(cmd.Args[0])); {
		case command == "GET" && len(cmd.Args) == 2:
			mu.RLock()
			value, known := values[string(cmd.Args[1])]
			mu.RUnlock()
			if !known {
				conn.WriteNull()
				return
			}
			conn.WriteBulk(value)
		case command == "SET" && len(cmd.Args) == 3:
			mu.Lock()
			values[string(cmd.Args[1])] = append([]byte(nil), cmd.Args[2]...)
			mu.Unlock()
			conn.WriteString("OK")
		case command == "INCR" && len(cmd.Args) == 2:
			mu.Lock()
			n, err := strconv.ParseInt(string(values[string(cmd.Args[1])]), 10, 64)
			if n++; err != nil {
				n = 1
			}
			values[string(cmd.Args[1])] = strconv.AppendInt(nil, n, 10)
			mu.Unlock()
			conn.WriteInt64(n)
		default:
			conn.WriteError("ERR unknown command")
		}
	}, nil, nil))
}
