package machine

import (
	"bufio"
	"io/fs"
	"strconv"
	"strings"
)

// Listeners returns the processes that listen on a TCP port of this machine, as far as this process
// may see them (Linux; its own user's, or all for root).
func Listeners(port uint16) []int { return thisHost().listeners(port) }

func (h *host) listeners(port uint16) (pids []int) {
	sockets := h.listening(port)
	if len(sockets) == 0 {
		return nil
	}
	for pid := range h.processes() {
		dir := "proc/" + strconv.Itoa(pid) + "/fd"
		open, _ := fs.ReadDir(h.root, dir) // another user's, or it has ended
		for _, fd := range open {
			if link, err := fs.ReadLink(h.root, dir+"/"+fd.Name()); err == nil && sockets[link] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// listening returns the sockets that listen on a port, as links to descriptors name them.
func (h *host) listening(port uint16) map[string]bool {
	sockets := map[string]bool{}
	for _, name := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		h.addListening(sockets, name, port)
	}
	return sockets
}

// addListening reads a table of sockets up to its first one that does not listen. Linux lists those
// that listen first. After a load tens of thousands of connections in TIME_WAIT follow, which would
// cost 150 ms of system time to read.
func (h *host) addListening(sockets map[string]bool, name string, port uint16) {
	const listen = "0A" // TCP_LISTEN
	table, err := h.root.Open(name)
	if err != nil {
		return // none of this system
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		words := strings.Fields(lines.Text()) // sl, local address, remote address, state, … the tenth is the inode
		if len(words) < 10 || words[0] == "sl" {
			continue
		}
		if words[3] != listen {
			return
		}
		_, local, _ := strings.Cut(words[1], ":")
		if n, err := strconv.ParseUint(local, 16, 16); err == nil && uint16(n) == port {
			sockets["socket:["+words[9]+"]"] = true
		}
	}
}
