package http1

// class is a bit set of the roles that a byte may have.
type class uint8

const (
	tokenByte class = 1 << iota // methods and field names
	hostByte                    // what net/http accepts in a Host
	pathByte                    // needs no escape in a path and has no special meaning there
	hexByte

	hexDigit = letter | hexByte
	letter   = tokenByte | hostByte | pathByte
)

var bytesOf = [256]class{
	'0': hexDigit, '1': hexDigit, '2': hexDigit, '3': hexDigit, '4': hexDigit,
	'5': hexDigit, '6': hexDigit, '7': hexDigit, '8': hexDigit, '9': hexDigit,
	'A': hexDigit, 'B': hexDigit, 'C': hexDigit, 'D': hexDigit, 'E': hexDigit, 'F': hexDigit,
	'G': letter, 'H': letter, 'I': letter, 'J': letter, 'K': letter, 'L': letter, 'M': letter, 'N': letter, 'O': letter, 'P': letter,
	'Q': letter, 'R': letter, 'S': letter, 'T': letter, 'U': letter, 'V': letter, 'W': letter, 'X': letter, 'Y': letter, 'Z': letter,
	'a': hexDigit, 'b': hexDigit, 'c': hexDigit, 'd': hexDigit, 'e': hexDigit, 'f': hexDigit,
	'g': letter, 'h': letter, 'i': letter, 'j': letter, 'k': letter, 'l': letter, 'm': letter, 'n': letter, 'o': letter, 'p': letter,
	'q': letter, 'r': letter, 's': letter, 't': letter, 'u': letter, 'v': letter, 'w': letter, 'x': letter, 'y': letter, 'z': letter,
	'!':  tokenByte | hostByte,
	'#':  tokenByte,
	'$':  tokenByte | hostByte | pathByte,
	'%':  tokenByte | hostByte,
	'&':  tokenByte | hostByte | pathByte,
	'\'': tokenByte | hostByte,
	'(':  hostByte,
	')':  hostByte,
	'*':  tokenByte | hostByte,
	'+':  tokenByte | hostByte | pathByte,
	',':  hostByte | pathByte,
	'-':  tokenByte | hostByte | pathByte,
	'.':  tokenByte | hostByte | pathByte,
	'/':  pathByte,
	':':  hostByte | pathByte,
	';':  hostByte | pathByte,
	'=':  hostByte | pathByte,
	'@':  pathByte,
	'[':  hostByte,
	']':  hostByte,
	'^':  tokenByte,
	'_':  tokenByte | hostByte | pathByte,
	'`':  tokenByte,
	'|':  tokenByte,
	'~':  tokenByte | hostByte | pathByte,
}
