package main

import (
	"strings"

	"github.com/rivo/uniseg"
)

// paper is what a terminal shows: as much of one as views need, without colours.
// What it does not know it keeps in unknown.
type paper struct {
	width, height int
	next          [2]int // a size that counts from the next time that the screen is erased
	rows          [][]string
	x, y          int
	wraps         bool // the last column is taken, and the next character goes below
	rest          string
	unknown       []string
}

func newPaper(width, height int) *paper {
	p := &paper{width: width, height: height}
	for range height {
		p.rows = append(p.rows, p.blank())
	}
	return p
}

func (p *paper) blank() []string {
	row := make([]string, p.width)
	for i := range row {
		row[i] = " "
	}
	return row
}

// resize changes the size as xterm does: lines are cut off on the right and on top.
func (p *paper) resize(width, height int) {
	p.width = width
	for i, row := range p.rows {
		whole := p.blank()
		copy(whole, row)
		p.rows[i] = whole
	}
	for len(p.rows) > height && p.y < len(p.rows)-1 {
		p.rows = p.rows[:len(p.rows)-1]
	}
	for len(p.rows) > height {
		p.rows = p.rows[1:]
		p.y--
	}
	for len(p.rows) < height {
		p.rows = append(p.rows, p.blank())
	}
	p.height, p.wraps = height, false
	p.x = min(p.x, width-1)
}

// text is what stands there, without blanks on the right and below.
func (p *paper) text() string {
	var lines []string
	for _, row := range p.rows {
		lines = append(lines, strings.TrimRight(strings.Join(row, ""), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// write takes output. What is cut off in the middle waits for the rest.
func (p *paper) write(output string) {
	p.rest += output
	for p.rest != "" {
		used := p.take(p.rest)
		if used == 0 {
			return
		}
		p.rest = p.rest[used:]
	}
}

// take takes one character or sequence; 0: there is more to come.
func (p *paper) take(s string) int {
	switch s[0] {
	case '\r':
		p.x, p.wraps = 0, false
		return 1
	case '\n':
		p.down()
		return 1
	case '\t':
		p.x = min(p.x/8*8+8, p.width-1)
		return 1
	case '\b':
		p.x, p.wraps = max(p.x-1, 0), false
		return 1
	case 0x1b:
		return p.escape(s)
	}
	if s[0] < ' ' {
		p.unknown = append(p.unknown, s[:1])
		return 1
	}
	if s[0] >= 0x80 && len(s) < 4 && !strings.ContainsAny(s[1:], "\r\n\x1b ") && !whole(s) {
		return 0
	}
	cluster, _, width, _ := uniseg.FirstGraphemeClusterInString(s, -1)
	p.put(cluster, width)
	return len(cluster)
}

// whole reports whether s begins with all bytes of a character.
func whole(s string) bool {
	need := 2
	switch {
	case s[0] >= 0xf0:
		need = 4
	case s[0] >= 0xe0:
		need = 3
	}
	return len(s) >= need
}

func (p *paper) put(cluster string, width int) {
	if p.wraps || p.x+width > p.width {
		p.x = 0
		p.down()
	}
	p.wraps = false
	for i := range min(width, p.width) {
		p.rows[p.y][p.x+i] = ""
	}
	p.rows[p.y][p.x] = cluster
	if p.x += width; p.x >= p.width {
		p.x, p.wraps = p.width-1, true
	}
}

func (p *paper) down() {
	p.wraps = false
	if p.y++; p.y == p.height {
		p.rows = append(p.rows[1:], p.blank())
		p.y--
	}
}

// escape takes a sequence.
func (p *paper) escape(s string) int {
	if len(s) < 2 {
		return 0
	}
	if s[1] == 'M' {
		p.y, p.wraps = max(p.y-1, 0), false
		return 2
	}
	if s[1] != '[' {
		p.unknown = append(p.unknown, s[:2])
		return 2
	}
	end := strings.IndexFunc(s[2:], func(r rune) bool { return r >= '@' && r <= '~' })
	if end < 0 {
		return 0
	}
	p.control(s[2:2+end], s[2+end])
	return end + 3
}

// control obeys a sequence that begins with ESC [.
func (p *paper) control(parameters string, what byte) {
	n := 0
	for _, d := range parameters {
		if d >= '0' && d <= '9' {
			n = 10*n + int(d-'0')
		}
	}
	if what != 'm' && what != 'h' && what != 'l' {
		p.wraps = false
	}
	switch what {
	case 'm', 'h', 'l': // colours, and whether the cursor is seen
	case 'A':
		p.y = max(p.y-max(n, 1), 0)
	case 'B':
		p.y = min(p.y+max(n, 1), p.height-1)
	case 'C':
		p.x = min(p.x+max(n, 1), p.width-1)
	case 'D':
		p.x = max(p.x-max(n, 1), 0)
	case 'G':
		p.x = min(max(n, 1), p.width) - 1
	case 'P':
		row := append(p.rows[p.y][:p.x], p.rows[p.y][min(p.x+max(n, 1), p.width):]...)
		p.rows[p.y] = append(row, p.blank()[len(row):]...)
	case '@':
		row := append(p.blank()[:0], p.rows[p.y][:p.x]...)
		row = append(append(row, p.blank()[:min(max(n, 1), p.width-p.x)]...), p.rows[p.y][p.x:]...)
		p.rows[p.y] = row[:p.width]
	case 'X', 'K', 'J':
		p.erase(what, n)
	default:
		p.unknown = append(p.unknown, "["+parameters+string(what))
	}
}

// erase erases n characters, or up to the end of the line, or its begin, or up to the
// end of the screen.
func (p *paper) erase(what byte, n int) {
	from, till := p.x, p.width
	switch {
	case what == 'X':
		till = min(p.x+max(n, 1), p.width)
	case what == 'K' && n == 1:
		from, till = 0, p.x+1
	case n != 0:
		p.unknown = append(p.unknown, "erasing backwards")
	}
	for x := from; x < till; x++ {
		p.rows[p.y][x] = " "
	}
	if what != 'J' {
		return
	}
	for y := p.y + 1; y < p.height; y++ {
		p.rows[y] = p.blank()
	}
	if p.next[0] > 0 {
		p.resize(p.next[0], p.next[1])
		p.next = [2]int{}
	}
}
