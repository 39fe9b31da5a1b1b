package sys

// Call names a system call of an event loop, for a Fault.
type Call uint8

// The calls that a Fault is asked about.
const (
	CallRead     Call = iota // of a Poll, not the function Read
	CallWrite                // of a Poll, not the function Write
	CallWait                 // Now, Block and Park
	CallRegister             // Add, Change and Remove
)

// Fault is how tests make system calls fail. It is asked before each call, with
// the size that is about to be asked for: bytes for Read and Write, events for
// the waits, 0 else. It answers how much of that to really ask for (a short
// read, a short write, fewer events) or the error to return instead of making
// the call. A size of 0 where more was wanted stands for EAGAIN, and EINTR is
// retried where the kernel's is, at most 64 times in a row: then the call is
// made. Without a Fault nothing fails. It may be called from several goroutines
// at once.
type Fault func(c Call, n int) (allow int, err error)

// Interest is what a Poll waits for on a socket. 0 waits for nothing, but the
// kernel reports errors and hang-ups all the same.
type Interest uint8

// The parts of an Interest, to be joined by or.
const (
	In   Interest = 1 << iota // there is something to read, or the end
	Out                       // there is room to write
	Once                      // after one report nothing more, not even a hang-up, until Change
)

// WakeKey is the key of the report that says that somebody called Wake.
const WakeKey = ^uint64(0)

// Socket is a connected, non-blocking socket's descriptor with nothing of Go's
// runtime behind it: no poller, no deadlines, no finalizer, 4 bytes. It has one
// owner, who closes it once; whatever else still holds the number then holds
// somebody else's socket.
type Socket int32

// NoSocket is no socket; every call on it fails.
const NoSocket Socket = -1

// Unsent is how many bytes the kernel holds for the peer: not sent, or not
// acknowledged. 0 if it does not say.
func (s Socket) Unsent() int { return Unsent(uintptr(s)) }

// Unread is how many bytes have arrived that nobody has read. 0 if the kernel
// does not say.
func (s Socket) Unread() int { return Unread(uintptr(s)) }
