package framed_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/hone-go/hone/wire"
)

// loadPlan is the load role's input, as JSON in HONE_TEST_PLAN.
type loadPlan struct {
	Network   string `json:"network"` // tcp on a loopback address, or unix
	Addr      string `json:"addr"`
	Conns     int    `json:"conns"`
	Depth     int    `json:"depth"` // maximum requests in flight on one connection
	Rate      int    `json:"rate"`  // requests per second over all connections; 0: closed loop
	WarmMS    int    `json:"warm_ms"`
	WindowMS  int    `json:"window_ms"`
	DrainMS   int    `json:"drain_ms"`   // how long to wait for the last acks; 0: a second
	Size      int    `json:"size"`       // bytes of content in a request
	First     string `json:"first"`      // first byte of the content, see tried; empty: no meaning
	ServerPID int    `json:"server_pid"` // process whose CPU clock to read; 0: none
	CPU       int    `json:"cpu"`        // CPU to pin to; -1: none
	Check     bool   `json:"check"`      // end at the first wrong ack instead of counting it
}

// loadReport is the load role's output, one line of JSON.
type loadReport struct {
	Requests   int64  `json:"requests"` // acknowledged within the window
	ElapsedNS  int64  `json:"elapsed_ns"`
	ServerCPU  *int64 `json:"server_cpu_ns"` // null without a server_pid
	ClientCPU  int64  `json:"client_cpu_ns"`
	Wrong      int64  `json:"wrong"`      // acks with an unknown id, or with a failure
	Unanswered int64  `json:"unanswered"` // requests without an ack at the end of the drain
	Others     int64  `json:"others_ns"`  // CPU time of the machine that neither server nor client used, to a tick or two
	Allocs     uint64 `json:"allocs"`     // the client's own, within the window

	// Open loop: from the intended time to the ack, for requests intended within the
	// window. Closed loop: from the write to the ack, for the first of every batch of
	// acks.
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
}

const (
	loadDialLimit = 5 * time.Second // for one connect
	loadFrame     = 1 << 20         // the longest ack
	loadEvents    = 512
	loadCatchUp   = 4096 // maximum requests started in one turn when behind the schedule, so that acks are read too
)

// load is the role's entry point: a single thread with one epoll descriptor that
// allocates nothing while it runs. It blocks in raw system calls, which is fine in a
// dedicated process.
func (roles) load() error {
	plan := loadPlan{Network: "tcp", Conns: 1, Depth: 1, Size: 16, WindowMS: 1000, CPU: -1}
	if err := json.Unmarshal([]byte(os.Getenv("HONE_TEST_PLAN")), &plan); err != nil {
		return fmt.Errorf("HONE_TEST_PLAN: %w", err)
	}
	if err := plan.validate(); err != nil {
		return fmt.Errorf("HONE_TEST_PLAN: %w", err)
	}
	if plan.CPU >= 0 {
		if err := pinProcess(plan.CPU); err != nil {
			return err
		}
	}
	if err := raiseDescriptorLimit(); err != nil {
		return err
	}
	l, err := newLoad(plan)
	if err != nil {
		return err
	}
	defer l.close()
	report, err := l.run()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (p loadPlan) validate() error {
	switch {
	case p.Conns < 1 || p.Conns > 1<<16:
		return fmt.Errorf("conns is %d, not 1 to 65536", p.Conns)
	case p.Depth < 1 || p.Depth > 1<<16:
		return fmt.Errorf("depth is %d, not 1 to 65536", p.Depth)
	case p.Size < 0 || p.Size > 1<<20:
		return fmt.Errorf("size is %d, not 0 to 1 MiB", p.Size)
	case p.Rate < 0 || p.Rate > 1e9:
		return fmt.Errorf("rate is %d, not 0 to a request a nanosecond", p.Rate)
	case p.WarmMS < 0 || p.WindowMS < 1 || p.WarmMS+p.WindowMS > 600_000:
		return fmt.Errorf("warm_ms and window_ms are %d and %d, not 10 minutes at most together", p.WarmMS, p.WindowMS)
	}
	return nil
}

// loadClient is the whole client. Times are nanoseconds since start.
type loadClient struct {
	plan    loadPlan
	epoll   int
	conns   []loadConn
	content []byte
	in      []byte // shared by all connections: the rest of a read goes to held
	out     []byte // the same for writes and unsent
	events  [loadEvents]syscall.EpollEvent

	start      time.Time
	from, till int64 // measurement window
	measuring  bool
	due        int64 // open loop: number of requests whose time has come
	answered   int64
	inFlight   int64
	wrong      int64
	latency    loadHistogram
}

type loadConn struct {
	fd         int
	number     uint64 // index of the connection, also part of the ids
	generation uint64
	ids        []uint64 // by slot; 0: free
	since      []int64  // by slot: start of its latency
	free       []uint16 // slots
	owed       int64    // requests to send when a slot is free
	sent       int64
	held       []byte // the start of an incomplete ack
	unsent     []byte // what the socket did not accept
}

func newLoad(plan loadPlan) (*loadClient, error) {
	l := &loadClient{
		plan:    plan,
		conns:   make([]loadConn, 0, plan.Conns),
		content: make([]byte, plan.Size),
		in:      make([]byte, 256<<10),
		out:     make([]byte, 0, plan.Depth*(plan.Size+32)),
	}
	for i := range l.content {
		l.content[i] = 'a' + byte(i%26)
	}
	copy(l.content, plan.First)
	var err error
	if l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	for i := range plan.Conns {
		c := loadConn{
			number: uint64(i),
			ids:    make([]uint64, plan.Depth),
			since:  make([]int64, plan.Depth),
			free:   make([]uint16, 0, plan.Depth),
			held:   make([]byte, 0, 64),
		}
		for slot := plan.Depth - 1; slot >= 0; slot-- {
			c.free = append(c.free, uint16(slot))
		}
		if plan.Rate == 0 {
			c.owed = math.MaxInt64
		}
		if c.fd, err = loadDial(plan.Network, plan.Addr); err == nil {
			l.conns = append(l.conns, c)
			if err = syscall.SetNonblock(c.fd, true); err == nil {
				err = l.arm(&c, syscall.EPOLL_CTL_ADD)
			}
		}
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, plan.Conns, err)
		}
	}
	return l, nil
}

func (l *loadClient) close() {
	for i := range l.conns {
		syscall.Close(l.conns[i].fd)
	}
	syscall.Close(l.epoll)
}

// loadDial returns a connected, blocking socket.
func loadDial(network, address string) (int, error) {
	var to syscall.Sockaddr
	family := syscall.AF_UNIX
	switch network {
	case "unix":
		to = &syscall.SockaddrUnix{Name: address}
	case "tcp":
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return -1, err
		}
		if !a.Addr().IsLoopback() {
			return -1, fmt.Errorf("%v is not this machine", a)
		}
		if a.Addr().Is4() {
			family, to = syscall.AF_INET, &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
		} else {
			family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
		}
	default:
		return -1, fmt.Errorf("network %q is neither tcp nor unix", network)
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	limit := syscall.NsecToTimeval(int64(loadDialLimit))
	err = errors.Join(
		os.NewSyscallError("SO_SNDTIMEO", syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &limit)),
		os.NewSyscallError("SO_RCVTIMEO", syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)))
	if err == nil && network == "tcp" {
		err = os.NewSyscallError("TCP_NODELAY", syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1))
	}
	if err == nil {
		_, err = uninterrupted(func() (int, error) { return 0, syscall.Connect(fd, to) })
		err = os.NewSyscallError("connect", err)
	}
	if err != nil {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

// uninterrupted repeats a call after EINTR; the kernel does not resume calls on a socket
// with a timeout. On Linux a repeated connect waits for the first.
func uninterrupted(call func() (int, error)) (n int, err error) {
	for range 1000 {
		if n, err = call(); err != syscall.EINTR {
			break
		}
	}
	return n, err
}

// now costs about 40 ns, so it is called once per batch.
func (l *loadClient) now() int64 { return int64(time.Since(l.start)) }

func (l *loadClient) run() (loadReport, error) {
	l.start = time.Now()
	l.from = int64(l.plan.WarmMS) * 1e6
	l.till = l.from + int64(l.plan.WindowMS)*1e6
	if l.plan.Rate == 0 {
		for i := range l.conns {
			if err := l.send(&l.conns[i], l.now()); err != nil {
				return loadReport{}, err
			}
		}
	}
	var begin, end loadMoment
	var before, after runtime.MemStats
	err := l.turnsUntil(l.from, false)
	if err == nil {
		begin, err = l.moment()
	}
	if err == nil {
		l.measuring = true
		runtime.ReadMemStats(&before)
		err = l.turnsUntil(l.till, false)
		runtime.ReadMemStats(&after)
	}
	if err == nil {
		end, err = l.moment()
	}
	if err == nil {
		err = l.drain()
	}
	if err != nil {
		return loadReport{}, err
	}
	r := loadReport{
		Requests:   end.answered - begin.answered,
		ElapsedNS:  end.at - begin.at,
		ClientCPU:  end.client - begin.client,
		Wrong:      l.wrong,
		Unanswered: l.inFlight,
		Others:     end.cpus*(end.at-begin.at) - (end.idle - begin.idle) - (end.client - begin.client) - (end.server - begin.server),
		Allocs:     after.Mallocs - before.Mallocs,
		P50:        l.latency.quantile(0.50) / 1e3,
		P99:        l.latency.quantile(0.99) / 1e3,
	}
	if l.plan.ServerPID > 0 {
		cpu := end.server - begin.server
		r.ServerCPU = &cpu
	}
	return r, nil
}

// loadMoment is a snapshot at an edge of the window.
type loadMoment struct{ at, answered, client, server, idle, cpus int64 }

func (l *loadClient) moment() (m loadMoment, err error) {
	m.answered = l.answered
	if l.plan.ServerPID > 0 {
		m.server, err = processCPU(l.plan.ServerPID)
	}
	if err == nil {
		m.client, err = processCPU(os.Getpid())
	}
	m.at = l.now()
	if err == nil {
		m.idle, m.cpus, err = idleCPU()
	}
	return m, err
}

// drain starts no new requests and waits for those in flight. In the open loop the
// requests of the window still count, those without an ack as if it had arrived at the
// end of the drain: leaving them out would flatter the server (coordinated omission).
func (l *loadClient) drain() error {
	limit := l.till + int64(l.plan.DrainMS)*int64(time.Millisecond)
	l.measuring = l.plan.Rate > 0
	for i := range l.conns {
		if c := &l.conns[i]; !l.measuring {
			c.owed = 0
		}
	}
	for l.measuring && l.moments(l.due) < l.till { // requests that the client itself was late to send
		if err := l.begin(l.till - 1); err != nil {
			return err
		}
	}
	err := l.turnsUntil(limit, true)
	for i := range l.conns {
		c := &l.conns[i]
		for slot, id := range c.ids {
			if id != 0 && l.measuring {
				l.record(c.since[slot], limit)
			}
		}
		for ; l.measuring && c.owed > 0; c.owed-- {
			l.inFlight++
			l.record(l.intended(c), limit)
			c.sent++
		}
	}
	return err
}

// turnsUntil runs the loop until a given time; when draining, it starts nothing and
// returns when nothing is in flight.
func (l *loadClient) turnsUntil(limit int64, draining bool) error {
	for now := l.now(); now < limit; now = l.now() {
		wait := 100 * time.Millisecond
		switch {
		case draining && l.inFlight == 0:
			return nil
		case l.plan.Rate > 0 && !draining:
			if err := l.begin(now); err != nil {
				return err
			}
			wait = 0 // spin: no timer is as precise
		}
		wait = min(wait, time.Duration(limit-now)+time.Millisecond)
		n, errno := epollWait(l.epoll, l.events[:], int(wait/time.Millisecond))
		if errno != 0 && errno != syscall.EINTR {
			return os.NewSyscallError("epoll_wait", errno)
		}
		for i := range n {
			if err := l.serve(&l.conns[l.events[i].Fd], l.events[i].Events); err != nil {
				return fmt.Errorf("connection %d: %w", l.events[i].Fd+1, err)
			}
		}
	}
	return nil
}

// begin sends the requests that are due. Request n belongs to connection n modulo conns
// and is due n/rate seconds after the start, whatever the server does.
func (l *loadClient) begin(now int64) error {
	for range loadCatchUp {
		if l.moments(l.due) > now {
			return nil
		}
		c := &l.conns[l.due%int64(len(l.conns))]
		l.due++
		c.owed++
		if err := l.send(c, now); err != nil {
			return err
		}
	}
	return nil
}

// moments returns the intended time of request n.
func (l *loadClient) moments(n int64) int64 {
	rate := int64(l.plan.Rate)
	return n/rate*1e9 + n%rate*1e9/rate
}

// intended returns the intended time of the next request on c.
func (l *loadClient) intended(c *loadConn) int64 {
	return l.moments(c.sent*int64(len(l.conns)) + int64(c.number))
}

// serve handles a connection's events, with at most one read: unread data is reported
// again in the next turn.
func (l *loadClient) serve(c *loadConn, events uint32) error {
	if events&syscall.EPOLLOUT != 0 {
		if err := l.flush(c); err != nil {
			return err
		}
	}
	if events&^syscall.EPOLLOUT == 0 {
		return nil
	}
	held := copy(l.in, c.held)
	n, errno := rawRead(c.fd, l.in[held:])
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return nil
	case errno != 0:
		return os.NewSyscallError("read", errno)
	case n == 0:
		return errors.New("the server closed it")
	}
	now := l.now()
	if err := l.acks(c, l.in[:held+n], now); err != nil {
		return err
	}
	return l.send(c, now)
}

// acks settles the complete acks in in and keeps the rest.
func (l *loadClient) acks(c *loadConn, in []byte, now int64) error {
	record := l.measuring
	for {
		payload, need, err := wire.Frame(in, loadFrame)
		if err != nil {
			return fmt.Errorf("an ack's frame: %w", err)
		}
		if need > 0 {
			c.held = append(c.held[:0], in...)
			return nil
		}
		in = in[wire.HeaderSize+len(payload):]
		p, err := wire.Standard.Parse(payload)
		slot := p.ID & 0xffff
		known := err == nil && slot < uint64(len(c.ids)) && c.ids[slot] == p.ID && p.ID != 0
		if !known || p.Command != wire.SubmitAck || p.Result != wire.OK {
			l.wrong++
			if l.plan.Check {
				return fmt.Errorf("%v with id %#x, result %d, parse error %v; that id is outstanding: %v", p.Command, p.ID, p.Result, err, known)
			}
		}
		if known {
			c.ids[slot] = 0
			c.free = append(c.free, uint16(slot))
			l.inFlight--
			l.answered++
			if record {
				l.record(c.since[slot], now)
				record = l.plan.Rate > 0
			}
		}
	}
}

// record records the latency of a request that started at since. The open loop counts
// requests intended within the window, whenever they complete.
func (l *loadClient) record(since, now int64) {
	if l.plan.Rate == 0 || since >= l.from && since < l.till {
		l.latency.add(now - since)
	}
}

// send writes what c owes at once, as far as it has free slots.
func (l *loadClient) send(c *loadConn, now int64) error {
	out := l.out[:0]
	for len(c.free) > 0 && c.owed > 0 {
		slot := c.free[len(c.free)-1]
		c.free = c.free[:len(c.free)-1]
		c.generation++
		id := c.generation<<32 | c.number<<16 | uint64(slot)
		c.ids[slot], c.since[slot] = id, now
		if l.plan.Rate > 0 {
			c.since[slot] = l.intended(c)
		}
		c.owed--
		c.sent++
		l.inFlight++
		out = wire.Standard.Append(out, wire.Packet{Command: wire.Submit, ID: id, Content: l.content})
	}
	if l.out = out; len(out) == 0 {
		return nil
	}
	if len(c.unsent) > 0 {
		c.unsent = append(c.unsent, out...)
		return nil
	}
	n, errno := rawWrite(c.fd, out)
	if errno != 0 && errno != syscall.EAGAIN && errno != syscall.EINTR {
		return os.NewSyscallError("write", errno)
	}
	if n == len(out) {
		return nil
	}
	c.unsent = append(c.unsent, out[n:]...)
	return l.arm(c, syscall.EPOLL_CTL_MOD)
}

// flush writes what an earlier send could not.
func (l *loadClient) flush(c *loadConn) error {
	n, errno := rawWrite(c.fd, c.unsent)
	if errno != 0 && errno != syscall.EAGAIN && errno != syscall.EINTR {
		return os.NewSyscallError("write", errno)
	}
	if c.unsent = append(c.unsent[:0], c.unsent[n:]...); len(c.unsent) > 0 {
		return nil
	}
	return l.arm(c, syscall.EPOLL_CTL_MOD)
}

// arm registers the events that c waits for.
func (l *loadClient) arm(c *loadConn, op int) error {
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(c.number)}
	if len(c.unsent) > 0 {
		ev.Events |= syscall.EPOLLOUT
	}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(l.epoll, op, c.fd, &ev))
}

// loadHistogram counts durations in buckets with a width of 1.6 %: seven significant bits
// and their exponent.
type loadHistogram struct {
	counts [64 * 60]uint64
	total  uint64
}

func (h *loadHistogram) add(ns int64) {
	v := uint64(max(ns, 0))
	shift := max(bits.Len64(v)-7, 0)
	h.counts[shift*64+int(v>>shift)]++
	h.total++
}

// quantile returns the middle of the bucket with the quantile, in nanoseconds, and 0
// without values.
func (h *loadHistogram) quantile(q float64) float64 {
	rank := uint64(math.Ceil(q * float64(h.total)))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			shift := max(i/64-1, 0)
			low := uint64(i-shift*64) << shift
			return float64(low) + float64(uint64(1)<<shift-1)/2
		}
	}
	return 0
}

// The calls below hold the processor while they run. Only a dedicated process may block
// in them.

func epollWait(epoll int, events []syscall.EpollEvent, ms int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(ms), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func rawRead(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func rawWrite(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// processCPU returns the CPU time of a process, in nanoseconds. The id of its CPU clock
// is derived from its process id.
func processCPU(pid int) (int64, error) {
	const schedulerClock = 2
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|schedulerClock), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, errno)
	}
	return ts.Nano(), nil
}

// idleCPU returns the total idle time of all CPUs, in nanoseconds with the resolution of
// a tick, and the number of CPUs. The kernel measures it with a clock, whereas it samples
// the time in use by ticks, which miss short sleeps.
func idleCPU() (ns, cpus int64, err error) {
	const tick = 1e9 / 100 // USER_HZ, on every platform that Go runs on
	all, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	var user, nice, system, idle, iowait int64
	if _, err = fmt.Sscanf(string(all), "cpu %d %d %d %d %d", &user, &nice, &system, &idle, &iowait); err != nil {
		return 0, 0, fmt.Errorf("/proc/stat: %w", err)
	}
	return (idle + iowait) * tick, int64(bytes.Count(all, []byte("\ncpu"))), nil
}

type cpuMask [1024 / 64]uint64

// pinProcess binds every thread of this process to one CPU. New threads inherit the
// binding from the threads that start them; one may do so during the first pass, hence
// the second.
func pinProcess(cpu int) error {
	var mask cpuMask
	if cpu < 0 || cpu >= len(mask)*64 {
		return fmt.Errorf("there is no CPU %d", cpu)
	}
	mask[cpu/64] |= 1 << (cpu % 64)
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(id), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
			if errno != 0 && errno != syscall.ESRCH {
				return fmt.Errorf("pinning to CPU %d: %w", cpu, errno)
			}
		}
	}
	return nil
}

// allowedCPUs lists the CPUs that this process may use.
func allowedCPUs() ([]int, error) {
	var mask cpuMask
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return nil, os.NewSyscallError("sched_getaffinity", errno)
	}
	var cpus []int
	for i := range len(mask) * 64 {
		if mask[i/64]&(1<<(i%64)) != 0 {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}

// raiseDescriptorLimit raises the soft descriptor limit to the hard limit.
func raiseDescriptorLimit() error {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if r.Cur = r.Max; syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return fmt.Errorf("RLIMIT_NOFILE cannot be raised to its own hard limit of %d", r.Max)
	}
	return nil
}
