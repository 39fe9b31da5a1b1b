package sys

// Call identifies a system call of an event loop, for a Fault.
type Call uint8

// The calls that a Fault can intercept.
const (
	CallRead     Call = iota // of a Poll, not the function Read
	CallWrite                // of a Poll, not the function Write
	CallWait                 // Now, Block and Park
	CallRegister             // Add, Change and Remove
)

// Fault lets tests make system calls fail. It is called before each system call with the
// size of the request: bytes for Read and Write, events for the waits, 0 otherwise. It
// returns how much of that to request (a short read, a short write, fewer events) or the
// error to return instead of making the call. A size of 0 where more was requested stands
// for EAGAIN, and EINTR is retried as for the kernel's, at most 64 times in a row: then
// the call is made. Without a Fault nothing fails. It may be called from several
// goroutines at once.
type Fault func(c Call, n int) (allow int, err error)

// Interest is the set of events that a Poll reports for a socket. With 0 the kernel still
// reports errors and hang-ups.
type Interest uint8

// The flags of an Interest.
const (
	In   Interest = 1 << iota // readable, or at the end of the stream
	Out                       // writable
	Once                      // one-shot: after one report nothing more, not even a hang-up, until Change
)

// WakeKey is the key of the report that Wake causes.
const WakeKey = ^uint64(0)

// Socket is the descriptor of a connected, non-blocking socket outside Go's runtime: no
// poller, no deadlines, no finalizer, 4 bytes. It has one owner, who closes it once;
// after that the number may belong to another socket.
type Socket int32

// NoSocket is not a socket; every call on it fails.
const NoSocket Socket = -1

// Unsent returns how many bytes are in the kernel's send buffer: not sent, or not
// acknowledged. 0 if the kernel does not report it.
func (s Socket) Unsent() int { return Unsent(uintptr(s)) }

// Unread returns how many bytes are in the kernel's receive buffer. 0 if the kernel does
// not report it.
func (s Socket) Unread() int { return Unread(uintptr(s)) }
