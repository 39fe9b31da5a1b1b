package proxy

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// binaryHeader returns a version 2 header with a correct length field.
func binaryHeader(command, family byte, body string) string {
	h := append([]byte(signature), command, family)
	h = binary.BigEndian.AppendUint16(h, uint16(len(body)))
	return string(h) + body
}

const (
	body4 = "\x0a\x01\x02\x03\xc0\xa8\x00\x0b\xdc\x04\x01\xbb"
	body6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\xdc\x04\x01\xbb"
	bodyMapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x01\x02\x03" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\xa8\x00\x0b" + "\xdc\x04\x01\xbb"
	tlvs = "\x03\x00\x04\xde\xad\xbe\xef\x02\x00\x0bexample.org"
)

// goodHeaders are valid headers, with the address that they carry: "" for the
// socket's own.
var goodHeaders = []struct{ name, header, addr string }{
	{"v1 tcp4", "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", "192.168.0.1:56324"},
	{"v1 tcp4 shortest", "PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", "0.0.0.0:0"},
	{"v1 tcp4 longest", "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"},
	{"v1 tcp6", "PROXY TCP6 2001:DB8::a:7 2001:db8::1 56324 443\r\n", "[2001:db8::a:7]:56324"},
	{"v1 tcp6 shortest", "PROXY TCP6 :: :: 0 0\r\n", "[::]:0"},
	{"v1 tcp6 in full", "PROXY TCP6 0001:0002:3:4:5:6:7:8 ::1 1 2\r\n", "[1:2:3:4:5:6:7:8]:1"},
	{"v1 tcp6 longest", "PROXY TCP6 " + strings.Repeat("ffff:", 7) + "ffff " + strings.Repeat("ffff:", 7) + "ffff 65535 65535\r\n",
		"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"},
	{"v1 tcp6 gap at the end", "PROXY TCP6 1:2:3:4:5:6:7:: 1:: 1 2\r\n", "[1:2:3:4:5:6:7:0]:1"},
	{"v1 tcp6 gap at the start", "PROXY TCP6 ::2:3:4:5:6:7:8 ::8 1 2\r\n", "[0:2:3:4:5:6:7:8]:1"},
	{"v1 tcp6 mapped", "PROXY TCP6 ::ffff:10.1.2.3 ::ffff:10.1.2.4 1 2\r\n", "10.1.2.3:1"},
	{"v1 tcp6 dotted tail", "PROXY TCP6 64:ff9b:1:2:3:4:10.1.2.3 1:2:3:4:5::9.9.9.9 1 2\r\n", "[64:ff9b:1:2:3:4:a01:203]:1"},
	{"v1 unknown", "PROXY UNKNOWN\r\n", ""},
	{"v1 unknown with a rest", "PROXY UNKNOWN ffff::1 any \x00\xff thing\r\n", ""},
	{"v1 unknown longest", "PROXY UNKNOWN " + strings.Repeat("x", 91) + "\r\n", ""},
	{"v2 local", binaryHeader(0x20, 0x00, ""), ""},
	{"v2 local, its family and body ignored", binaryHeader(0x20, 0xff, "\x01"), ""},
	{"v2 tcp4", binaryHeader(0x21, 0x11, body4), "10.1.2.3:56324"},
	{"v2 tcp4 with TLVs", binaryHeader(0x21, 0x11, body4+tlvs), "10.1.2.3:56324"},
	{"v2 tcp6", binaryHeader(0x21, 0x21, body6), "[2001:db8::7]:56324"},
	{"v2 tcp6 mapped", binaryHeader(0x21, 0x21, bodyMapped), "10.1.2.3:56324"},
	{"v2 longest", binaryHeader(0x21, 0x21, body6+strings.Repeat("\x04", bodyMax-len(body6))), "[2001:db8::7]:56324"},
	{"v2 unspecified", binaryHeader(0x21, 0x00, ""), ""},
	{"v2 unspecified with a body", binaryHeader(0x21, 0x00, body4), ""},
	{"v2 unspecified transport", binaryHeader(0x21, 0x10, body4), ""},
	{"v2 udp4", binaryHeader(0x21, 0x12, body4), ""},
	{"v2 udp6", binaryHeader(0x21, 0x22, body6), ""},
	{"v2 unix", binaryHeader(0x21, 0x31, strings.Repeat("/", 216)), ""},
	{"v2 unix datagram", binaryHeader(0x21, 0x32, strings.Repeat("/", 216)), ""},
}

// badHeaders are invalid headers, and how many of their bytes are still valid.
var badHeaders = []struct {
	name, header string
	fine         int
}{
	{"a request instead", "GET / HTTP/1.1\r\n", 0},
	{"a frame instead", "\x00\x00\x00\x0d\x02", 0},
	{"lower case", "proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n", 0},
	{"two spaces", "PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n", 6},
	{"a tab", "PROXY\tTCP4 1.2.3.4 5.6.7.8 1 2\r\n", 5},
	{"NUL for the kind", "PROXY \x00", 6},
	{"UDP4", "PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n", 7},
	{"TCP5", "PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n", 9},
	{"TCP46", "PROXY TCP46 1.2.3.4 5.6.7.8 1 2\r\n", 10},
	{"no addresses", "PROXY TCP4\r\n", 10},
	{"IPv6 in TCP4", "PROXY TCP4 ::1 ::1 1 2\r\n", 11},
	{"IPv4 in TCP6", "PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n", 12},
	{"octet 256", "PROXY TCP4 1.2.256.4 5.6.7.8 1 2\r\n", 17},
	{"octal octet", "PROXY TCP4 1.02.3.4 5.6.7.8 1 2\r\n", 14},
	{"three octets", "PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n", 16},
	{"five octets", "PROXY TCP4 1.2.3.4.5 5.6.7.8 1 2\r\n", 18},
	{"empty octet", "PROXY TCP4 1..3.4 5.6.7.8 1 2\r\n", 13},
	{"dot at the end", "PROXY TCP4 1.2.3. 5.6.7.8 1 2\r\n", 17},
	{"hexadecimal octet", "PROXY TCP4 1.2.a.4 5.6.7.8 1 2\r\n", 15},
	{"mask", "PROXY TCP4 1.2.3.4/8 5.6.7.8 1 2\r\n", 18},
	{"destination of the wrong family", "PROXY TCP4 1.2.3.4 ::1 1 2\r\n", 19},
	{"zone", "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", 18},
	{"brackets", "PROXY TCP6 [::1] ::1 1 2\r\n", 11},
	{"three colons", "PROXY TCP6 1::: ::1 1 2\r\n", 14},
	{"two gaps", "PROXY TCP6 1::2::3 ::1 1 2\r\n", 16},
	{"one colon first", "PROXY TCP6 :1::2 ::1 1 2\r\n", 12},
	{"one colon last", "PROXY TCP6 1:2: ::1 1 2\r\n", 15},
	{"one colon last behind a gap", "PROXY TCP6 1::2: ::1 1 2\r\n", 16},
	{"one colon only", "PROXY TCP6 : ::1 1 2\r\n", 12},
	{"seven groups", "PROXY TCP6 1:2:3:4:5:6:7 ::1 1 2\r\n", 24},
	{"nine groups", "PROXY TCP6 1:2:3:4:5:6:7:8:9 ::1 1 2\r\n", 26},
	{"a gap for nothing", "PROXY TCP6 1:2:3:4::5:6:7:8 ::1 1 2\r\n", 25},
	{"five digits", "PROXY TCP6 12345:: ::1 1 2\r\n", 15},
	{"dotted tail too early", "PROXY TCP6 1:2:3:4:5:1.2.3.4 ::1 1 2\r\n", 22},
	{"dotted tail too late", "PROXY TCP6 1:2:3:4:5:6:7:1.2.3.4 ::1 1 2\r\n", 26},
	{"dotted tail and a gap for nothing", "PROXY TCP6 1::2:3:4:5:6:1.2.3.4 ::1 1 2\r\n", 25},
	{"octal dotted tail", "PROXY TCP6 ::01.2.3.4 ::1 1 2\r\n", 15},
	{"port 65536", "PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n", 31},
	{"port with a zero in front", "PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n", 28},
	{"negative port", "PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n", 27},
	{"no port", "PROXY TCP4 1.2.3.4 5.6.7.8\r\n", 26},
	{"one port", "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", 28},
	{"space behind the ports", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n", 30},
	{"LF alone", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", 30},
	{"CR alone", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\rx", 31},
	{"unknown, LF alone", "PROXY UNKNOWN\n", 13},
	{"unknown with a rest, LF alone", "PROXY UNKNOWN x\n", 15},
	{"unknown with a rest, CR alone", "PROXY UNKNOWN x\r\r\n", 16},
	{"unknown and more", "PROXY UNKNOWNS\r\n", 13},
	{"unknown too long", "PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n", 105},
	{"unknown without end", "PROXY UNKNOWN " + strings.Repeat("x", 4096), 105},
	{"tcp6 too long", "PROXY TCP6 " + strings.Repeat("ffff:", 6) + "111.111.111.111 " + strings.Repeat("ffff:", 6) + "111.111.111.1 65535 65535\r\n", 103},
	{"signature broken", "\r\n\r\n\x00\r\nQUIET", 10},
	{"an empty line", "\r\n\r\n\r\n", 4},
	{"version 1 in binary", binaryHeader(0x11, 0x11, body4), 12},
	{"version 3", binaryHeader(0x31, 0x11, body4), 12},
	{"command 2", binaryHeader(0x22, 0x11, body4), 12},
	{"family 4", binaryHeader(0x21, 0x41, strings.Repeat("x", 216)), 13},
	{"transport 3", binaryHeader(0x21, 0x13, body4), 13},
	{"tcp4 cut short by its length", binaryHeader(0x21, 0x11, body4[:11]), 15},
	{"tcp4 without addresses", binaryHeader(0x21, 0x11, ""), 15},
	{"tcp6 with the addresses of tcp4", binaryHeader(0x21, 0x21, body4), 15},
	{"unix cut short by its length", binaryHeader(0x21, 0x31, strings.Repeat("/", 215)), 15},
	{"one byte too long", binaryHeader(0x21, 0x11, strings.Repeat("x", bodyMax+1)), 15},
	{"as long as the field can say", binaryHeader(0x21, 0x11, strings.Repeat("x", 0xffff)), 14},
	{"local and too long", binaryHeader(0x20, 0x00, strings.Repeat("x", 0xffff)), 14},
}

func TestProxyHeader(t *testing.T) {
	for _, c := range goodHeaders {
		t.Run(c.name, func(t *testing.T) {
			for _, behind := range []string{"", "PROXY ", "\r\n\r\n\x00", "\x00\x00\x00\x0d"} {
				used, need, addr, err := Parse([]byte(c.header + behind))
				if err != nil || need != 0 || used != len(c.header) {
					t.Fatalf("used %d, need %d, error %v with %q behind it; want used %d", used, need, err, behind, len(c.header))
				}
				got := ""
				if addr.IsValid() {
					got = addr.String()
				}
				if got != c.addr {
					t.Fatalf("address %q, want %q", got, c.addr)
				}
			}
			checkPrefixes(t, []byte(c.header))
		})
	}
}

func TestProxyHeaderRefused(t *testing.T) {
	for _, c := range badHeaders {
		t.Run(c.name, func(t *testing.T) {
			in := []byte(c.header)
			if used, need, addr, err := Parse(in); err != ErrMalformed || used != 0 || need != 0 || addr.IsValid() {
				t.Fatalf("used %d, need %d, address %v, error %v; want only the error", used, need, addr, err)
			}
			if _, need, _, err := Parse(in[:c.fine]); err != nil || need == 0 {
				t.Errorf("refused within the first %d bytes, which are valid", c.fine)
			}
			if _, _, _, err := Parse(in[:c.fine+1]); err == nil {
				t.Errorf("byte %d, %q, was not refused at once", c.fine, in[c.fine])
			}
			checkPrefixes(t, in)
		})
	}
}

// The minimum that is missing, for prefixes whose shortest continuation is known.
func TestProxyHeaderNeed(t *testing.T) {
	tests := []struct{ prefix, shortest string }{
		{"", "PROXY UNKNOWN\r\n"},
		{"PROX", "Y UNKNOWN\r\n"},
		{"PROXY ", "UNKNOWN\r\n"},
		{"PROXY U", "NKNOWN\r\n"},
		{"PROXY UNKNOWN", "\r\n"},
		{"PROXY UNKNOWN whatever", "\r\n"},
		{"PROXY UNKNOWN whatever\r", "\n"},
		{"PROXY T", "CP6 :: :: 0 0\r\n"},
		{"PROXY TCP", "6 :: :: 0 0\r\n"},
		{"PROXY TCP4", " 0.0.0.0 0.0.0.0 0 0\r\n"},
		{"PROXY TCP4 ", "0.0.0.0 0.0.0.0 0 0\r\n"},
		{"PROXY TCP4 12", ".0.0.0 0.0.0.0 0 0\r\n"},
		{"PROXY TCP4 1.2.3.", "0 0.0.0.0 0 0\r\n"},
		{"PROXY TCP4 1.2.3.4", " 0.0.0.0 0 0\r\n"},
		{"PROXY TCP4 1.2.3.4 5.6.7.8 ", "0 0\r\n"},
		{"PROXY TCP4 1.2.3.4 5.6.7.8 1", " 0\r\n"},
		{"PROXY TCP4 1.2.3.4 5.6.7.8 1 ", "0\r\n"},
		{"PROXY TCP4 1.2.3.4 5.6.7.8 1 2", "\r\n"},
		{"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r", "\n"},
		{"PROXY TCP6 ", ":: :: 0 0\r\n"},
		{"PROXY TCP6 :", ": :: 0 0\r\n"},
		{"PROXY TCP6 ::", " :: 0 0\r\n"},
		{"PROXY TCP6 1", ":: :: 0 0\r\n"},
		{"PROXY TCP6 1:", ": :: 0 0\r\n"},
		{"PROXY TCP6 1::2:", "0 :: 0 0\r\n"},
		{"PROXY TCP6 1:2:3:4:5:6:7", ":: :: 0 0\r\n"},
		{"PROXY TCP6 1:2:3:4:5:6:7:", ": :: 0 0\r\n"},
		{"PROXY TCP6 1:2:3:4:5:6:7:8", " :: 0 0\r\n"},
		{"PROXY TCP6 ::1.", "0.0.0 :: 0 0\r\n"},
		{"\r", signature[1:] + "\x20\x00\x00\x00"},
		{signature + "\x21", "\x00\x00\x00"},
		{signature + "\x21\x11\x00", "\x0c"}, // the length is incomplete
		{signature + "\x21\x11\x00\x0c", body4},
		{signature + "\x21\x11\x00\x0c" + body4[:11], body4[11:]},
	}
	for _, c := range tests {
		if _, need, _, err := Parse([]byte(c.prefix)); err != nil || need != len(c.shortest) {
			t.Errorf("after %q: need %d, error %v; want %d for %q", c.prefix, need, err, len(c.shortest), c.shortest)
		}
	}
}

// checkPrefixes parses every prefix of in and checks that the results are
// consistent: more is needed, never beyond the header, until there is a verdict, and then
// the same verdict for every longer prefix.
func checkPrefixes(t *testing.T, in []byte) {
	t.Helper()
	allUsed, allNeed, allAddr, allErr := Parse(in)
	end := len(in) + allNeed // the header has at least this length
	if allErr == nil && allNeed == 0 {
		end = allUsed
	}
	decided := false
	certain := 0 // minimum length of the header, from the prefixes so far
	for n := range len(in) + 1 {
		used, need, addr, err := Parse(in[:n])
		switch {
		case used < 0 || used > n || need < 0 || need > 0 && (used != 0 || addr.IsValid() || err != nil) || err != nil && (used != 0 || addr.IsValid()):
			t.Fatalf("%q: used %d, need %d, address %v, error %v at once", in[:n], used, need, addr, err)
		case need > 0 && decided:
			t.Fatalf("%q: needs %d more after the verdict", in[:n], need)
		case need > 0:
			if n+need < certain {
				t.Fatalf("%q: needs %d, but a prefix of it needed %d bytes in total", in[:n], need, certain)
			}
			if certain = n + need; allErr == nil && certain > end {
				t.Fatalf("%q: needs %d, which reaches beyond the header's %d bytes", in[:n], need, end)
			}
		default:
			if decided = true; used != allUsed || addr != allAddr || err != allErr {
				t.Fatalf("%q: used %d, address %v, error %v; the whole: %d, %v, %v", in[:n], used, addr, err, allUsed, allAddr, allErr)
			}
		}
	}
	checkExactReader(t, in)
}

// checkExactReader reads like an engine that reads exactly what is needed.
func checkExactReader(t *testing.T, in []byte) {
	t.Helper()
	allUsed, allNeed, _, allErr := Parse(in)
	for n, reads := 0, 0; ; reads++ {
		used, need, _, err := Parse(in[:n])
		if n+need > len(in) && (allErr != nil || allNeed > 0) {
			return // in ends before the verdict
		}
		if need == 0 {
			if err != allErr || err == nil && (used != n || used != allUsed) {
				t.Fatalf("%q: exact reads end after %d bytes with used %d, error %v; the whole: used %d, error %v", in, n, used, err, allUsed, allErr)
			}
			return
		}
		if reads > lineMax {
			t.Fatalf("%q: no verdict after %d exact reads", in, reads)
		}
		if n += need; n > len(in) {
			t.Fatalf("%q: an exact read went %d bytes beyond the header", in, n-len(in))
		}
	}
}

var (
	tcpLine = regexp.MustCompile(`^PROXY TCP([46]) ([0-9a-fA-F:.]+) ([0-9a-fA-F:.]+) (0|[1-9][0-9]*) (0|[1-9][0-9]*)\r\n`)
	anyLine = regexp.MustCompile(`(?s)^PROXY UNKNOWN( [^\r\n]*)?\r\n`)
)

// slowLine is an independent parser of version 1, for whole lines only.
func slowLine(in []byte) (used int, addr netip.AddrPort, ok bool) {
	in = in[:min(len(in), lineMax)]
	if m := anyLine.FindIndex(in); m != nil {
		return m[1], addr, true
	}
	m := tcpLine.FindSubmatch(in)
	if m == nil {
		return 0, addr, false
	}
	src, err1 := netip.ParseAddr(string(m[2]))
	dst, err2 := netip.ParseAddr(string(m[3]))
	port, err3 := strconv.ParseUint(string(m[4]), 10, 16)
	_, err4 := strconv.ParseUint(string(m[5]), 10, 16)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || src.Is4() != (m[1][0] == '4') || dst.Is4() != src.Is4() {
		return 0, addr, false
	}
	return len(m[0]), netip.AddrPortFrom(src.Unmap(), uint16(port)), true
}

// FuzzProxyHeader checks that any split gives the same result, that exact reads end and
// never read too far, and that lines parse like those of slowLine.
func FuzzProxyHeader(f *testing.F) {
	for _, c := range goodHeaders {
		f.Add([]byte(c.header))
		f.Add([]byte(c.header + "\x00\x00\x00\x0d\x02"))
	}
	for _, c := range badHeaders {
		f.Add([]byte(c.header))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		in = in[:min(len(in), fixed+bodyMax+8)]
		checkPrefixes(t, in)
		used, need, addr, err := Parse(in)
		if bytes.HasPrefix(in, []byte("\r")) {
			return
		}
		slowUsed, slowAddr, ok := slowLine(in)
		if good := err == nil && need == 0; good != ok || used != slowUsed || addr != slowAddr {
			t.Fatalf("%q: used %d, need %d, address %v, error %v; the slow reader: %d, %v, %v", in, used, need, addr, err, slowUsed, slowAddr, ok)
		}
	})
}

func TestProxyHeaderAllocates0(t *testing.T) {
	try := func(name, header string) {
		in := []byte(header)
		if n := testing.AllocsPerRun(100, func() { Parse(in) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	for _, c := range goodHeaders {
		try(c.name, c.header)
		try(c.name+", cut short", c.header[:len(c.header)-1])
	}
	for _, c := range badHeaders {
		try(c.name, c.header)
	}
}

func BenchmarkProxyHeader(b *testing.B) {
	for _, c := range []struct{ name, header string }{
		{"v1tcp4", "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"},
		{"v1tcp6", "PROXY TCP6 2001:db8::a:7 2001:db8::1 56324 443\r\n"},
		{"v2tcp4", binaryHeader(0x21, 0x11, body4+tlvs)},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := []byte(c.header)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, err := Parse(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
