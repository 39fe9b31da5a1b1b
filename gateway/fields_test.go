package gateway

import (
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// A negative window is a mistake of the programmer, and the panic names the field.
func TestNegativeWindowPanics(t *testing.T) {
	addrs := []string{"127.0.0.1:1"}
	testrun.WantPanic(t, "gateway: Client.Window is negative; ", func() { (&Client{Addrs: addrs, ID: "c", Window: -1}).Open(t.Context()) })
	testrun.WantPanic(t, "gateway: Reader.Window is negative; ", func() { (&Reader{Addrs: addrs, Name: "r", Window: -1}).Open(t.Context()) })
}
