package lab

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/hone-go/hone/pool"
)

// objectSizes are the sizes among which to find the crossover.
var objectSizes = [...]int{8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10}

// The ways to get an object.
var objectWays = [...]string{"make", "sync.Pool", "pool.Objects", "pool.Buffers"}

func objectCase(way string, size int) string { return way + "/" + strconv.Itoa(size) }

// objectsStage times the objects of the second and third articles.
func objectsStage() (*stage, error) {
	s := &stage{timed: map[string]timed{
		"buffer/new": {bufferNew()}, "buffer/pool": {bufferPooled()},
		"struct/new": {smallNew()}, "struct/sync.Pool": {smallPooled()}, "struct/pool.Objects": {smallObjects()},
	}, asked: survivals}
	for _, size := range objectSizes {
		s.timed[objectCase("make", size)] = timed{makeEach(size)}
		s.timed[objectCase("sync.Pool", size)] = timed{syncPooled(size)}
		s.timed[objectCase("pool.Objects", size)] = timed{objectsPooled(size)}
		s.timed[objectCase("pool.Buffers", size)] = timed{buffersPooled(size)}
	}
	return s, nil
}

// shelf holds an object so that it escapes to the heap.
type shelf struct {
	held  []byte
	small *small
}

// small is the third article's struct of 8 bytes.
type small struct{ num int }

func smallNew() func(int) {
	on := new(shelf)
	return func(n int) {
		for range n {
			on.small = &small{num: 1}
			on.small.num++
		}
	}
}

func smallPooled() func(int) {
	on := new(shelf)
	smalls := sync.Pool{New: func() any { return new(small) }}
	return func(n int) {
		for range n {
			on.small = smalls.Get().(*small)
			on.small.num = 1
			on.small.num++
			smalls.Put(on.small)
		}
	}
}

func smallObjects() func(int) {
	on := new(shelf)
	var smalls pool.Objects[small]
	return func(n int) {
		for range n {
			on.small = smalls.Get()
			on.small.num = 1
			on.small.num++
			smalls.Put(on.small)
		}
	}
}

func bufferNew() func(int) {
	data := make([]byte, 1000)
	return func(n int) {
		for range n {
			var buf bytes.Buffer
			buf.Write(data)
		}
	}
}

func bufferPooled() func(int) {
	data := make([]byte, 1000)
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	return func(n int) {
		for range n {
			buf := buffers.Get().(*bytes.Buffer)
			buf.Write(data)
			buf.Reset()
			buffers.Put(buf)
		}
	}
}

func makeEach(size int) func(int) {
	on := new(shelf)
	return func(n int) {
		for range n {
			b := make([]byte, size)
			b[0]++
			on.held = b
		}
	}
}

func syncPooled(size int) func(int) {
	blocks := sync.Pool{New: func() any { b := make([]byte, size); return &b }}
	return func(n int) {
		for range n {
			b := blocks.Get().(*[]byte)
			(*b)[0]++
			blocks.Put(b)
		}
	}
}

func objectsPooled(size int) func(int) {
	blocks := pool.Objects[[]byte]{New: func() *[]byte { b := make([]byte, size); return &b }}
	return func(n int) {
		for range n {
			b := blocks.Get()
			(*b)[0]++
			blocks.Put(b)
		}
	}
}

func buffersPooled(size int) func(int) {
	var blocks pool.Buffers
	return func(n int) {
		for range n {
			b := blocks.Get(size)
			b.Bytes()[0]++
			b.Release()
		}
	}
}

// survival counts the collections that an idle object of a sync.Pool survives.
type survival struct {
	Collections int `json:"collections"`
}

func survivals(string) (any, error) {
	longest := 0
	for range 20 { // an object cached by another CPU is not found, and -race drops one in four
		for n := 1; n <= 3; n++ {
			var idle sync.Pool
			idle.Put(new(shelf))
			for range n {
				runtime.GC()
			}
			if idle.Get() != nil {
				longest = max(longest, n)
			}
		}
	}
	return survival{Collections: longest}, nil
}

// objects is the first half of the second article, and the third's benchmark.
func objects(ctx context.Context, b *bench) error {
	p, err := b.start(ctx, "objects")
	if err != nil {
		return err
	}
	defer p.Stop()
	cases := []string{"buffer/new", "buffer/pool", "struct/new", "struct/sync.Pool", "struct/pool.Objects"}
	for _, size := range objectSizes {
		for _, way := range objectWays {
			cases = append(cases, objectCase(way, size))
		}
	}
	all, err := b.timeAll(ctx, p, cases, quickly(b, 1, 7), quickly(b, 10*time.Millisecond, 120*time.Millisecond))
	if err != nil {
		return err
	}
	b.objectClaims(all)
	var idle survival
	if err := p.order(ctx, "survivals", 0, &idle); err != nil {
		return err
	}
	b.add(one(float64(idle.Collections)).row("collections that an idle object survives", "collections",
		"The third article reads Go 1.12, whose sync.Pool was a slice under a mutex that each collection emptied. Since Go 1.13 it is a lock-free queue per P, "+
			"and idle objects move to a victim cache for one more collection.").beside(0).as(first(idle.Collections == 0, false)))
	for _, size := range objectSizes {
		b.crossover(size, all)
	}
	return nil
}

// objectClaims reports the figures that the articles print.
func (b *bench) objectClaims(all map[string]spread) {
	const elsewhere = "The article used another machine: compare the gain below."
	made, lent := all["buffer/new"], all["buffer/pool"]
	b.add(made.row("bytes.Buffer, 1,000 bytes written, new", "ns", elsewhere).beside(232.2),
		lent.row("bytes.Buffer, 1,000 bytes written, from a sync.Pool", "ns", elsewhere).beside(32.81))
	gain := made.over(lent)
	b.add(gain.row("the pool's gain for 1,000 bytes", "× as fast", "Most of the difference is memory: 1 KiB is allocated, cleared and collected each time. "+
		"The pool's buffer exists already and is warm in the cache. A buffer that one goroutine owns would cost still less.").beside(232.2 / 32.81).as(gained(232.2/32.81, gain)))
	article := 175_742.0 / 253_269
	for _, way := range objectWays[1:3] {
		small := all["struct/new"].over(all["struct/"+way])
		b.add(small.row("the gain of "+way+" for a struct of 8 bytes", "× as fast", "The third article's own benchmark shows that the pool loses, and the text then concludes that it must win. "+
			"Allocating 8 bytes without pointers takes about as long as Get and Put, and 8 bytes are hardly work for the garbage collector. Ours is no exception.").beside(article).as(gained(article, small)))
	}
}

// crossover is one size of the table.
func (b *bench) crossover(size int, all map[string]spread) {
	made := all[objectCase("make", size)]
	for _, way := range objectWays[1:] {
		lent := all[objectCase(way, size)]
		gain := made.over(lent)
		what := fmt.Sprintf("%s against make, %s", way, bytesOf(size))
		b.add(lent.row(what, "ns", fmt.Sprintf("Is a pool worth it? make takes %s ns here. pool.Buffers costs more than a bare sync.Pool because it counts every loan, "+
			"so that a use after release panics; pool.Objects is a typed sync.Pool.", number(made.median()))).to(gain, "less than make").as(better(gain)))
	}
}
