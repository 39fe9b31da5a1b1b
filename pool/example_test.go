package pool_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/hone-go/hone/pool"
)

// A message is written into pooled memory, and sent in one piece.
func Example() {
	var buffers pool.Buffers // one for the whole program, in the struct that uses it

	send := func(name string) error {
		b := buffers.Get(0) // the length is unknown
		defer b.Release()
		b.SetBytes(fmt.Appendf(b.Bytes(), "hello, %s\n", name))
		_, err := os.Stdout.Write(b.Bytes())
		return err
	}
	for _, name := range []string{"ann", "bob"} {
		if err := send(name); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("in use:", buffers.Stats().Lent)
	// Output:
	// hello, ann
	// hello, bob
	// still lent: 0
}

// Pool values that are expensive to make and cheap to reset. With puts the value back,
// and drops it when the function panics.
func ExampleObjects() {
	type encoder struct {
		text bytes.Buffer
		json *json.Encoder
	}
	encoders := pool.Objects[encoder]{
		New: func() *encoder {
			e := new(encoder)
			e.json = json.NewEncoder(&e.text)
			return e
		},
		Reset: func(e *encoder) { e.text.Reset() },
		Keep:  func(e *encoder) bool { return e.text.Cap() <= 64<<10 },
	}
	encoders.With(func(e *encoder) {
		if err := e.json.Encode(map[string]int{"answer": 42}); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(e.text.String())
	})
	// Output:
	// {"answer":42}
}

// A goroutine that owns its objects needs no shared pool.
func ExampleLocal() {
	type request struct{ words []string }
	free := pool.Local[request]{ // a field of the goroutine that uses it
		Reset: func(r *request) { clear(r.words); r.words = r.words[:0] },
	}
	first := free.Get()
	first.words = append(first.words, "get", "price")
	free.Put(first)

	second := free.Get()
	fmt.Println(first == second, len(second.words), cap(second.words) >= 2)
	// Output:
	// true 0 true
}

// Using a Buffer after its Release panics, even if its memory has been handed out again.
func ExampleBuffer_Release() {
	var buffers pool.Buffers
	b := buffers.Get(100)
	b.Release()
	defer func() { fmt.Println("panicked:", recover() != nil) }()
	b.Release()
	// Output:
	// panicked: true
}
