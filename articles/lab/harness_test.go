package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// stageArgument makes the test binary a stage.
const stageArgument = "lab-stage"

// TestMain lets the test binary act as a stage, and counts goroutines.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == stageArgument {
		if err := Serve(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// newBench returns a lab whose stages are this binary.
func newBench(t *testing.T) *bench {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{stage: []string{exe, stageArgument}, say: t.Logf}
}

// staged is a stage within this process.
type staged struct {
	addr   string
	orders io.Writer
	lines  *bufio.Scanner
}

// startStage runs a stage until the test ends, and checks that it left nothing behind.
func startStage(t *testing.T, name string) *staged {
	t.Helper()
	in, orders := io.Pipe()
	out, lines := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), name, in, lines)
		lines.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		orders.Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(patience):
			t.Errorf("%s has not ended %v after its orders", name, patience)
		}
	})
	s := &staged{orders: orders, lines: bufio.NewScanner(out)}
	var first ready
	s.answer(t, &first)
	s.addr = first.Addr
	return s
}

// order sends an order and decodes the answer.
func (s *staged) order(t *testing.T, order string, answer any) {
	t.Helper()
	if _, err := io.WriteString(s.orders, order+"\n"); err != nil {
		t.Fatal(err)
	}
	s.answer(t, answer)
}

func (s *staged) answer(t *testing.T, answer any) {
	t.Helper()
	if !s.lines.Scan() {
		t.Fatalf("the stage has ended: %v", s.lines.Err())
	}
	if err := json.Unmarshal(s.lines.Bytes(), answer); err != nil {
		t.Fatalf("%s: %v", s.lines.Text(), err)
	}
}
