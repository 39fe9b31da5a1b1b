package framed_test

import "encoding/binary"

// proxyV2 is a header of version 2.
func proxyV2(command, family byte, body []byte) []byte {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...)
}
