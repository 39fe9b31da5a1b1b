package avatar

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/bidi"
)

// Rules decide which letters represent a name. The zero Rules are hone's own: the first letters of
// the first and last words, in capitals; the family name of a Han name.
type Rules struct {
	// Most is the largest number of letters. 0: 2; more than 4 counts as 4.
	Most int
	// KeepCase leaves letters as they are. false: capitals.
	KeepCase bool
	// Fill adds the next letters of the last word if there are fewer words than letters, as
	// ui-avatars and DiceBear do. false: Florian is F.
	Fill bool
	// Given selects the last two characters of a Han name, as is usual where colleagues use given
	// names. false: the family name.
	Given bool
	// Preferred uses letters in parentheses after a name as its initials if there are at most
	// Most, as initials-avatar does: John Doe (jo) is JO. false: text in brackets is a note, and
	// John Doe (HR) is JD.
	Preferred bool
}

// Letters are the letters to draw, from left to right; zeros end them.
type Letters [4]rune

// String returns the letters as text.
func (l Letters) String() string { return string(l[:l.len()]) }

func (l Letters) len() int {
	for i, r := range l {
		if r == 0 {
			return i
		}
	}
	return len(l)
}

// Of returns a name's letters; a name without letters, digits or symbols has none. The name should
// be clean: see [Limits]. Of does not allocate.
//
// Text in brackets of any kind is a note and does not count, unless there is nothing else. Neither
// does an address next to a name; of an address alone, the part before the @ counts. Letters of a
// right-to-left script are returned in the order in which they are drawn, from left to right.
func (r Rules) Of(name string) Letters {
	r.Most = min(max(r.Most, 0), len(Letters{}))
	if r.Most == 0 {
		r.Most = 2
	}
	var l Letters
	w := wordsOf(name)
	switch preferred := r.preferred(name); {
	case preferred != "":
		l = r.fill(preferred, 0, l)
	case w.count == 0 && w.address != "":
		l = r.ofAddress(w.address)
	case w.count == 0:
		l[0] = w.symbol
	case w.count == 1 && !r.Fill && unicode.Is(unicode.Han, first(w.last)):
		l = r.ofHan(w.last)
	default:
		l = r.ofWords(w)
	}
	for i, letter := range l {
		if letter != 0 && !r.KeepCase {
			l[i] = unicode.ToTitle(letter) // fonts have the usual form of Georgian letters, too
		}
	}
	return visual(l)
}

// words holds as many of a name's words as can matter.
type words struct {
	first   [len(Letters{}) - 1]string
	last    string
	count   int    // number of all words
	address string // an address, which does not count as a word
	symbol  rune   // the first symbol outside words; 0: none
}

// wordsOf finds the words of a name outside brackets, or all words if there is nothing outside.
func wordsOf(name string) words {
	var w words
	for rest := name; rest != ""; {
		var part string
		part, rest = outside(rest)
		w.read(part)
	}
	if w.count == 0 && w.address == "" && w.symbol == 0 {
		w.read(name)
	}
	return w
}

// read adds the words of text that contain a letter or digit.
func (w *words) read(text string) {
	for text != "" {
		var word string
		word, text, _ = strings.Cut(text, " ")
		switch {
		case isAddress(word):
			w.address = word
		case first(word) != 0:
			w.add(word)
		case w.symbol == 0:
			w.symbol = symbolOf(word)
		}
	}
}

func (w *words) add(word string) {
	if w.count < len(w.first) {
		w.first[w.count] = word
	}
	w.last = word
	w.count++
}

// ofWords returns one letter of each word, ending with the last word's.
func (r Rules) ofWords(w words) Letters {
	var l Letters
	for i := range min(r.Most-1, w.count-1) {
		l[i] = first(w.first[i])
	}
	n := min(r.Most-1, w.count-1)
	if r.Most == 1 {
		w.last = w.first[0]
	}
	if r.Fill {
		return r.fill(w.last, n, l)
	}
	l[n] = first(w.last)
	return l
}

// fill adds letters of a word after the first n.
func (r Rules) fill(word string, n int, l Letters) Letters {
	for ; n < r.Most; n++ {
		letter, rest := next(word)
		if letter == 0 {
			break
		}
		l[n], word = letter, rest
	}
	return l
}

// ofAddress uses the part before the @ as the name, and dots as spaces.
func (r Rules) ofAddress(address string) Letters {
	local, _, _ := strings.Cut(strings.TrimLeft(address, "<"), "@")
	if r.Fill {
		return r.fill(local, 0, Letters{})
	}
	var w words
	for local != "" {
		at := strings.IndexAny(local, "._+-")
		word := local
		local = ""
		if at >= 0 {
			word, local = word[:at], word[at+1:]
		}
		if first(word) != 0 {
			w.add(word)
		}
	}
	if w.count == 0 {
		return Letters{}
	}
	return r.ofWords(w)
}

// ofHan returns the family name, of two characters if it is a known one, or the last two
// characters.
func (r Rules) ofHan(word string) Letters {
	var l Letters
	runes, n := [2]rune{}, 0
	for _, c := range word {
		if !unicode.Is(unicode.Han, c) {
			continue
		}
		switch {
		case n < 2:
			runes[n] = c
		case r.Given:
			runes[0], runes[1] = runes[1], c
		}
		n++
	}
	l[0] = runes[0]
	if r.Most > 1 && (r.Given || n > 2 && familyNames[runes]) {
		l[1] = runes[1]
	}
	return l
}

// preferred returns the text in parentheses after a name if it is one word of at most r.Most
// letters, or "".
func (r Rules) preferred(name string) string {
	inner, ok := strings.CutSuffix(name, ")")
	open := strings.LastIndexByte(inner, '(')
	if !r.Preferred || !ok || open < 1 || first(inner[:open]) == 0 {
		return ""
	}
	inner = inner[open+1:]
	letters, left := 0, inner
	for {
		letter, more := next(left)
		if letter == 0 {
			break
		}
		letters, left = letters+1, more
	}
	if letters == 0 || letters > r.Most || strings.Contains(inner, " ") {
		return ""
	}
	return inner
}

// outside cuts off the first part of a name that is outside brackets. An unclosed bracket extends
// to the end, as in a truncated name.
func outside(name string) (part, rest string) {
	depth, from := 0, 0
	for i, r := range name {
		switch {
		case isOpening(r):
			if depth == 0 && i > from {
				return name[from:i], name[i:]
			}
			depth++
		case depth > 0 && isClosing(r):
			depth--
			from = i + utf8.RuneLen(r)
		}
	}
	if depth > 0 {
		return "", ""
	}
	return name[from:], ""
}

func isOpening(r rune) bool {
	switch r {
	case '(', '[', '{', '（', '［', '｛', '【', '〔', '〖', '「', '『', '〈', '《':
		return true
	}
	return false
}

func isClosing(r rune) bool {
	switch r {
	case ')', ']', '}', '）', '］', '｝', '】', '〕', '〗', '」', '』', '〉', '》':
		return true
	}
	return false
}

func isAddress(word string) bool {
	at := strings.IndexByte(word, '@')
	return at > 0 && at < len(word)-1
}

// first returns a word's first letter or digit, or 0.
func first(word string) rune {
	letter, _ := next(word)
	return letter
}

// next returns the first letter or digit of text, and the rest. It leaves out combining marks, and
// vowels of Thai and Lao that are written before their consonant: for its readers, เอกชัย begins
// with อ.
func next(text string) (letter rune, rest string) {
	for text != "" {
		cluster, behind := firstCluster(text)
		r, _ := utf8.DecodeRuneInString(cluster)
		if (unicode.IsLetter(r) || unicode.IsNumber(r)) && !isVowelBefore(r) {
			return r, behind
		}
		text = behind
	}
	return 0, ""
}

func isVowelBefore(r rune) bool {
	return r >= 'เ' && r <= 'ไ' || r >= 'ເ' && r <= 'ໄ'
}

// symbolOf returns the first symbol of text, or 0.
func symbolOf(text string) rune {
	for text != "" {
		cluster, behind := firstCluster(text)
		if r, _ := utf8.DecodeRuneInString(cluster); unicode.IsSymbol(r) {
			return r
		}
		text = behind
	}
	return 0
}

// firstCluster cuts off the first grapheme cluster.
func firstCluster(text string) (cluster, rest string) {
	if text[0] < utf8.RuneSelf && (len(text) == 1 || text[1] < utf8.RuneSelf) && text[0] != '\r' {
		return text[:1], text[1:]
	}
	cluster, rest, _, _ = uniseg.FirstGraphemeClusterInString(text, -1)
	return cluster, rest
}

// visual reverses letters of a right-to-left script.
func visual(l Letters) Letters {
	if l[0] < utf8.RuneSelf {
		return l
	}
	props, _ := bidi.LookupRune(l[0])
	if c := props.Class(); c != bidi.R && c != bidi.AL {
		return l
	}
	for i, j := 0, l.len()-1; i < j; i, j = i+1, j-1 {
		l[i], l[j] = l[j], l[i]
	}
	return l
}

// familyNames are the family names of two characters, in simplified and traditional form.
var familyNames = map[[2]rune]bool{
	{'欧', '阳'}: true, {'歐', '陽'}: true, {'司', '马'}: true, {'司', '馬'}: true, {'上', '官'}: true,
	{'诸', '葛'}: true, {'諸', '葛'}: true, {'夏', '侯'}: true, {'东', '方'}: true, {'東', '方'}: true,
	{'皇', '甫'}: true, {'尉', '迟'}: true, {'尉', '遲'}: true, {'公', '孙'}: true, {'公', '孫'}: true,
	{'令', '狐'}: true, {'慕', '容'}: true, {'宇', '文'}: true, {'长', '孙'}: true, {'長', '孫'}: true,
	{'司', '徒'}: true, {'司', '空'}: true, {'司', '寇'}: true, {'端', '木'}: true, {'轩', '辕'}: true,
	{'軒', '轅'}: true, {'南', '宫'}: true, {'南', '宮'}: true, {'独', '孤'}: true, {'獨', '孤'}: true,
	{'西', '门'}: true, {'西', '門'}: true, {'东', '门'}: true, {'東', '門'}: true, {'百', '里'}: true,
	{'呼', '延'}: true, {'东', '郭'}: true, {'東', '郭'}: true, {'南', '郭'}: true, {'闻', '人'}: true,
	{'聞', '人'}: true, {'澹', '台'}: true, {'澹', '臺'}: true, {'公', '冶'}: true, {'公', '羊'}: true,
	{'公', '西'}: true, {'宗', '政'}: true, {'濮', '阳'}: true, {'濮', '陽'}: true, {'淳', '于'}: true,
	{'单', '于'}: true, {'單', '于'}: true, {'太', '史'}: true, {'太', '叔'}: true, {'申', '屠'}: true,
	{'仲', '孙'}: true, {'仲', '孫'}: true, {'钟', '离'}: true, {'鍾', '離'}: true, {'鲜', '于'}: true,
	{'鮮', '于'}: true, {'闾', '丘'}: true, {'閭', '丘'}: true, {'拓', '跋'}: true, {'赫', '连'}: true,
	{'赫', '連'}: true, {'万', '俟'}: true, {'萬', '俟'}: true, {'左', '丘'}: true, {'梁', '丘'}: true,
	{'巫', '马'}: true, {'巫', '馬'}: true, {'漆', '雕'}: true, {'乐', '正'}: true, {'樂', '正'}: true,
	{'第', '五'}: true, {'纳', '兰'}: true, {'納', '蘭'}: true, {'完', '颜'}: true, {'完', '顏'}: true,
}
