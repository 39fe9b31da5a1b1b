package engine

import (
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"unsafe"
	"weak"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/internal/testrun"
)

// slabs returns a shard without a runner, for its slab.
func slabs() *shard { return bare(Limits{}).bareShard() }

func taken(t *testing.T, l *shard) connRef {
	t.Helper()
	k, why := l.take()
	if why != 0 {
		t.Fatal(why)
	}
	k.held().setAway(false)
	return k
}

// TestSlotSize enforces the memory cost of an idle connection.
func TestSlotSize(t *testing.T) {
	const most = 72
	size := unsafe.Sizeof(slot{}) + unsafe.Sizeof(chunk{}.inflights[0])
	if t.Logf("%d bytes", size); size > most {
		t.Errorf("a connection costs %d bytes in its slab, want %d at most", size, most)
	}
}

// A key identifies a connection, not its slot: no key is used twice, whatever is freed in
// between, the slab's memory included.
func TestKeysAreNotUsedAgain(t *testing.T) {
	l := slabs()
	seen := map[uint64]bool{}
	for round := range 4 {
		var all []connRef
		for range 3 * chunkSlots {
			k := taken(t, l)
			if seen[k.key] {
				t.Fatalf("round %d: key %x for a second connection", round, k.key)
			}
			seen[k.key] = true
			all = append(all, k)
		}
		for i := range all {
			k := all[len(all)-1-i]
			k.owner().free()
			if _, ok := l.lock(k.key); ok {
				t.Fatal("a key has outlived its connection")
			}
		}
	}
	for key := range seen {
		if _, ok := l.lock(key); ok {
			t.Fatal("a stale key finds a connection")
		}
	}
	if l.open.Load() != 0 {
		t.Errorf("%d open connections", l.open.Load())
	}
}

func TestSlabShrinks(t *testing.T) {
	l := slabs()
	var all []connRef
	for range 20 * chunkSlots {
		all = append(all, taken(t, l))
	}
	first, last := all[0], all[len(all)-1].key
	memory := weak.Make((*l.chunks.Load())[19].slots)
	for i := len(all) - 1; i > 0; i-- {
		all[i].owner().free()
	}
	if n := len(*l.chunks.Load()); n > 2 {
		t.Errorf("%d chunks are kept for one connection", n)
	}
	all = nil
	if runtime.GC(); memory.Value() != nil {
		t.Error("the memory of a freed chunk is still reachable")
	}
	if k, ok := l.lock(first.key); !ok || k.s != first.s {
		t.Error("the connection that stayed has moved, or is gone")
	} else {
		k.s.mu.Unlock()
	}
	if _, ok := l.find(last); ok {
		t.Error("a slot beyond the slab is found")
	}
}

// A slab has hysteresis at a chunk's edge.
func TestSlabDoesNotFlutter(t *testing.T) {
	l := slabs()
	for range chunkSlots {
		taken(t, l)
	}
	k := taken(t, l)
	chunks := l.chunks.Load()
	for range 100 {
		k.owner().free()
		k = taken(t, l)
	}
	if l.chunks.Load() != chunks {
		t.Error("a chunk is allocated and freed with one connection")
	}
}

// A connection inherits nothing from the one that had its slot before: its trust, for
// example.
func TestSlotsAreCleared(t *testing.T) {
	l := slabs()
	begun := func() connRef {
		k := taken(t, l)
		k.owner().begin(&arrival{}, sys.NoSocket, nil)
		k.s.mu.Unlock()
		return k
	}
	fresh, old := begun(), begun()
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(old.s)), unsafe.Sizeof(slot{}))
	for i := unsafe.Offsetof(slot{}.state); i < unsafe.Sizeof(slot{}); i++ {
		bytes[i] = 1 // true, and no small number
	}
	old.owner().free()
	next := begun()
	if next.s != old.s {
		t.Fatal("the slot was not used again")
	}
	want, got := reflect.ValueOf(fresh.s).Elem(), reflect.ValueOf(next.s).Elem()
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		if slices.Contains([]string{
			"mu", "tenant", // belong to the slot
			"address", // not in use without hasFour
		}, name) {
			continue
		}
		if want, got := fmt.Sprint(want.Field(i)), fmt.Sprint(got.Field(i)); got != want {
			t.Errorf("%s is %s in a slot that is used again, and %s in a fresh one", name, got, want)
		}
	}
}

func TestSlotAddresses(t *testing.T) {
	l := slabs()
	for _, text := range []string{"203.0.113.7:4711", "[2001:db8::7]:4711", "[fe80::1%lo]:1"} {
		k := taken(t, l)
		want := netip.MustParseAddrPort(text)
		k.held().setAddr(want)
		if got := (k.conn()).RemoteAddr(); got != want {
			t.Errorf("%v is returned as %v", want, got)
		}
		k.s.mu.Lock()
		k.held().detach()
		k.s.mu.Unlock()
		if got := (k.conn()).RemoteAddr(); got != want {
			t.Errorf("%v is %v when it is quiet", want, got)
		}
		k.owner().free()
		if got := (k.conn()).RemoteAddr(); got != (netip.AddrPort{}) {
			t.Errorf("%v is still %v when it has ended", want, got)
		}
	}
}

// Tickets are unique across inflights of a connection.
func TestTicketsOutliveTheFlight(t *testing.T) {
	l := slabs()
	k := taken(t, l)
	old := promised(&k)
	k.s.mu.Lock()
	k.x.Load().promises.Settle(old)
	k.held().detach()
	landed := k.x.Load() == nil
	k.s.mu.Unlock()
	if !landed {
		t.Fatal("an empty inflight is kept")
	}
	if again := promised(&k); again == old {
		t.Error("a ticket is used twice")
	}
	if err := k.conn().post(old, nil); err != ErrSettled {
		t.Errorf("a stale ticket returned %v, want ErrSettled", err)
	}
}

// Goroutines look up connections while others begin and end.
func TestSlabFromManyGoroutines(t *testing.T) {
	l := slabs()
	l.poll = new(sys.Poll)
	keys := make(chan uint64, 100)
	var looking sync.WaitGroup
	for range 2 {
		looking.Go(func() {
			for key := range keys {
				c := Conn{l, key}
				c.SetValue(key)
				if v := c.Value(); v != nil && v != key {
					t.Errorf("connection %x has the value of %x", key, v)
				}
			}
		})
	}
	var open []connRef
	for i := range 300 {
		k := taken(t, l)
		open = append(open, k)
		keys <- k.key
		if i%3 == 0 {
			open[0].owner().free()
			open = open[1:]
		}
	}
	close(keys)
	looking.Wait()
}

// A loop that holds an event of a connection that was away must not apply it to the next
// connection in the slot, whatever happens between any two of its instructions.
func TestStaleReportFindsNobody(t *testing.T) {
	l := slabs()
	k := taken(t, l)
	const stale = 7
	stop := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() {
		for old := (connRef{sh: l, s: k.s, x: k.x, key: keyOf(0, stale)}); ; {
			select {
			case <-stop:
				return
			default:
			}
			old.held().setAway(true) // the connection is served off its loop,
			k.s.tenant.Store(0)      // ends there,
			k.held().setAway(false)  // and the next one reuses its slot.
		}
	})
	report := connRef{sh: l, s: k.s, x: k.x, key: keyOf(0, stale)}
	for range 2_000_000 {
		if ended, away := report.standing(); !ended && !away {
			t.Error("a stale event finds a connection that is the loop's")
			break
		}
	}
	close(stop)
	ending.Wait()
}

// Goroutines look up connections while many others end and several chunks are freed. It
// is for the race detector: a published slice is never modified.
func TestSlabShrinksWhileOthersLook(t *testing.T) {
	l := slabs()
	first := taken(t, l)
	stop := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				l.find(first.key)
			}
		}
	})
	left := (*l.chunks.Load())[0]
	for range 2_000 {
		chunks := []chunk{left}
		for range 200 { // after a burst
			chunks = append(chunks, chunk{left.slots, left.inflights, &side{}})
		}
		chunks[200].side.open = 1 // except for one
		l.chunks.Store(&chunks)
		l.open.Add(1)
		k := connRef{sh: l, s: &left.slots[1], x: &left.inflights[1], key: keyOf(200*chunkSlots+1, 9)}
		k.owner().free() // frees 200 chunks
		if n := len(*l.chunks.Load()); n != 1 {
			t.Fatalf("%d chunks are left for one connection", n)
		}
	}
	close(stop)
	looking.Wait()
}

// promised returns the ticket of one more reply owed by k.
func promised(k *connRef) uint64 {
	var tickets [1]uint64
	k.owner().promise(tickets[:])
	return tickets[0]
}

// What a connection costs: a slot is one cache line, and an inflight is not more than the allocator's
// size class of 448 bytes; the next one is 480.
func TestSizesOfAConnection(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of 64-bit systems")
	}
	if size := unsafe.Sizeof(slot{}); size != 64 {
		t.Errorf("a slot has %d bytes, want 64", size)
	}
	if size := unsafe.Sizeof(inflight{}); size > 448 {
		t.Errorf("an inflight has %d bytes, want 448 at most", size)
	}
}

// A connection that ends while something is in flight leaves the memory of that to the next one.
func TestEndedConnectionsAllocateNothing(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes sync.Pool drop what it is given, to find misuse; go test without -race runs this")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties pools
	l := slabs()
	if n := testing.AllocsPerRun(1000, func() {
		k := taken(t, l)
		promised(&k)
		k.owner().free()
	}); n > 0 {
		t.Errorf("%v allocations per connection", n)
	}
}
