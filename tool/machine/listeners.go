package machine

import (
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
	const listen = "0A" // TCP_LISTEN
	sockets := map[string]bool{}
	for _, name := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		for line := range strings.Lines(h.text(name)) {
			words := strings.Fields(line) // sl, local address, remote address, state, … the tenth is the inode
			if len(words) < 10 || words[3] != listen {
				continue
			}
			_, local, _ := strings.Cut(words[1], ":")
			if n, err := strconv.ParseUint(local, 16, 16); err == nil && uint16(n) == port {
				sockets["socket:["+words[9]+"]"] = true
			}
		}
	}
	return sockets
}
