package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hone-go/hone/gateway/internal/commandline"
)

// terminal returns the two sides of a new terminal.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { user.Close() })
	var locked, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, user.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	if program, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// TestDropAsks: what waits is given up only after a question on a terminal, or with --yes.
func TestDropAsks(t *testing.T) {
	for _, c := range []struct {
		answer string // "": there is no terminal
		flags  string
		code   int
		says   string
		left   int
	}{
		{"", "--all --waiting", commandline.Usage, "add --yes", 4},
		{"", "--all --waiting --json", commandline.Usage, "add --yes", 4},
		{"", "--client a --waiting --yes", commandline.OK, "dropped: 3\n", 1},
		{"", "--client a --waiting --yes --json", commandline.OK, `{"changed":3}`, 1},
		{"n\n", "--client a --waiting", commandline.Failed, "Give up these 3 messages? [y/N] honed-relay: not confirmed", 4},
		{"y\n", "--client a --waiting", commandline.OK, "Give up these 3 messages? [y/N] ", 1},
		{"y\n", "0.2 --waiting --json", commandline.OK, "Give up these 1 messages? [y/N] ", 3},
		{"y\n", "--client nobody --waiting", commandline.OK, "NUMBER", 4},
	} {
		t.Run(fmt.Sprintf("%s %q", c.flags, c.answer), func(t *testing.T) {
			dir := t.TempDir()
			kept(t, dir, "AabA").close()
			cmd := exec.CommandContext(soon(t), os.Args[0], append([]string{"dead", "drop", "--data", dir}, strings.Fields(c.flags)...)...)
			if c.answer != "" {
				user, program := terminal(t)
				cmd.Stdin = program
				if _, err := user.WriteString(c.answer); err != nil {
					t.Fatal(err)
				}
			}
			said, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(said), c.says) {
				t.Errorf("%v\n%s", err, said)
			}
			d := openTestDead(t, dir)
			defer d.close()
			if left := len(d.index.letters); left != c.left {
				t.Errorf("%d letters are left, not %d\n%s", left, c.left, said)
			}
		})
	}
}
