package handover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// Who serves is decided by two types that touch nothing: what is said goes in, decisions come out. A test drives
// them through every order of messages and deaths.

// holder decides what the process that has the sockets does with heirs, those that ask for them.
type holder struct {
	heir, pid int  // that has been given the sockets and is not ready yet; 0: none
	left      bool // this process has yielded, or shuts down
}

// asked reports whether to give an heir the sockets, or why it is refused. If neither, it is to ask again.
func (h *holder) asked(heir, pid, speaks int, trusted bool) (gives bool, why string) {
	switch {
	case !trusted:
		return false, "only its own user and root may replace it"
	case speaks != version:
		return false, fmt.Sprintf("it speaks version %d of the hand-over, not %d", version, speaks)
	case h.left:
		return false, ""
	case h.heir != 0:
		return false, fmt.Sprintf("process %d is replacing it", h.pid)
	}
	h.heir, h.pid = heir, pid
	return true, ""
}

// ready reports whether to leave the sockets to an heir that is ready.
func (h *holder) ready(heir int) bool { return !h.left && h.heir == heir }

// failed is told of an heir that has failed, hung or died. It reports whether that one is to be told so.
func (h *holder) failed(heir int) (tell bool) {
	if tell = h.ready(heir); tell {
		h.heir = 0
	}
	return tell
}

// heir decides what a new process does.
type heir struct{ holds bool } // the sockets, beside the old process

type act uint8

const (
	giveUp act = iota // and end
	bind              // open new sockets: nobody has them
	ask               // again
	hold              // begin to accept
	own               // be the process that others ask
)

// heard decides what to do about an answer, or the error in its place. Whoever is gone without a word is dead.
func (h *heir) heard(m message, err error) act {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return bind
	case h.holds && (m.Yielded || err != nil):
		return own
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return ask
	case err != nil || m.Refused != "" || len(m.Sockets) == 0:
		return giveUp
	}
	h.holds = true
	return hold
}
