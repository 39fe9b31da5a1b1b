package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/child"
)

// Local starts agents on this machine, as processes that end when this one does, however it ends.
type Local struct {
	// Count is the number of processes. Required.
	Count int
	// Command returns the command for one process, which calls Agent.Pipe with the files of
	// PipeFiles. Required.
	Command func(ctx context.Context) *exec.Cmd

	children []*child.Child
}

// joinTime is how long a process may take to send its first message.
const joinTime = 10 * time.Second

// MostLocal is the largest Count: more processes gain nothing on any machine.
const MostLocal = 64

// PipeFiles returns the pipes of a process that Local has started.
func PipeFiles() (in, out *os.File) {
	return os.NewFile(3, "coordinator"), os.NewFile(4, "coordinator")
}

func (l *Local) want() (int, time.Duration) { return l.Count, joinTime }

func (l *Local) open(c *coordinator) error {
	if l.Count < 1 || l.Count > MostLocal {
		return fmt.Errorf("load: %d agents on one machine; use 1 to %d", l.Count, MostLocal)
	}
	for i := range l.Count {
		if err := l.start(c, i); err != nil {
			return fmt.Errorf("load: agent %d does not start: %w; use --agents nats://… if processes cannot be started here", i+1, err)
		}
	}
	return nil
}

// start starts one process.
func (l *Local) start(c *coordinator, i int) error {
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirIn.Close()
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		ourOut.Close()
		return err
	}
	defer theirOut.Close()
	cmd := l.Command(context.Background())
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	process, err := child.Start(cmd, child.Options{Grace: lastWords})
	if err != nil {
		ourOut.Close()
		ourIn.Close()
		return err
	}
	l.children = append(l.children, process)
	c.join(i, strconv.Itoa(i+1), &stream{ourIn, ourOut})
	return nil
}

func (l *Local) absent(come int) error {
	said := ""
	for _, p := range l.children {
		if text := p.Said(); text != "" {
			said = "; one said: " + text
		}
	}
	return fmt.Errorf("load: only %d of %d agents have started within %v%s; use fewer of them", come, l.Count, joinTime, said)
}

// lost explains the end of a process.
func (l *Local) lost(m *member, why error) string {
	p := l.children[m.number]
	how := why.Error()
	select {
	case <-p.Ended():
		how = "exit code 0"
		if err := p.How(); err != nil {
			how = err.Error()
		}
		if said := p.Said(); said != "" {
			how += ", " + said
		}
	case <-time.After(lastWords):
	}
	return fmt.Sprintf("has ended before the load has (%s); find out why, for example too little memory", how)
}

func (l *Local) close() {
	var all sync.WaitGroup
	for _, p := range l.children {
		all.Go(p.Stop)
	}
	all.Wait()
}
