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
	// ui-avatars does. false: Florian is F.
	Fill bool
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
	switch {
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

// ofHan returns the family name, of two characters if it is a known one.
func (r Rules) ofHan(word string) Letters {
	var han [3]rune
	n := 0
	for _, c := range word {
		if unicode.Is(unicode.Han, c) && n < len(han) {
			han[n] = c
			n++
		}
	}
	if n == 3 && r.Most > 1 && strings.Contains(familyNames, string(han[:2])) {
		return Letters{han[0], han[1]}
	}
	return Letters{han[0]}
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
const familyNames = "欧阳 歐陽 司马 司馬 上官 诸葛 諸葛 夏侯 东方 東方 皇甫 尉迟 尉遲 公孙 " +
	"公孫 令狐 慕容 宇文 长孙 長孫 司徒 司空 司寇 端木 轩辕 軒轅 南宫 南宮 " +
	"独孤 獨孤 西门 西門 东门 東門 百里 呼延 东郭 東郭 南郭 闻人 聞人 澹台 " +
	"澹臺 公冶 公羊 公西 宗政 濮阳 濮陽 淳于 单于 單于 太史 太叔 申屠 仲孙 " +
	"仲孫 钟离 鍾離 鲜于 鮮于 闾丘 閭丘 拓跋 赫连 赫連 万俟 萬俟 左丘 梁丘 " +
	"巫马 巫馬 漆雕 乐正 樂正 第五 纳兰 納蘭 完颜 完顏"
