package wire_test

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/hone-go/hone/wire"
)

func TestDialectText(t *testing.T) {
	for want, d := range map[string]wire.Dialect{"standard": wire.Standard, "demo": wire.Demo} {
		text, err := d.MarshalText()
		if err != nil || string(text) != want || d.String() != want {
			t.Errorf("%s: String %q, MarshalText %q, %v", want, d, text, err)
		}
		got := wire.Dialect(99)
		if err := got.UnmarshalText([]byte(want)); err != nil || got != d {
			t.Errorf("UnmarshalText(%q): %v, %v", want, got, err)
		}
	}
	if _, err := wire.Dialect(7).MarshalText(); err == nil {
		t.Error("MarshalText of an unknown dialect: want an error")
	}
	if got := wire.Dialect(7).String(); got != "dialect 7" {
		t.Errorf("Dialect(7).String() = %q", got)
	}
}

func TestDialectTextRefusesOthersByNamingTheValidOnes(t *testing.T) {
	for _, bad := range []string{"", "Demo", "demo ", "std"} {
		d := wire.Demo
		err := d.UnmarshalText([]byte(bad))
		if err == nil || d != wire.Demo {
			t.Errorf("UnmarshalText(%q): %v, dialect now %v", bad, err, d)
			continue
		}
		text := err.Error()
		for _, part := range []string{"wire: ", `"` + bad + `"`, "standard", "demo"} {
			if !strings.Contains(text, part) {
				t.Errorf("the error %q does not contain %q", err, part)
			}
		}
	}
}

func TestDialectAsFlag(t *testing.T) {
	var d wire.Dialect
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&d, "dialect", wire.Standard, "")
	if err := flags.Parse([]string{"--dialect", "demo"}); err != nil || d != wire.Demo {
		t.Errorf("--dialect demo: %v, %v", d, err)
	}
	if err := flags.Parse([]string{"--dialect", "morse"}); err == nil {
		t.Error("--dialect morse was accepted")
	}
}
