package codec

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// handshakeError explains a failure of TLS itself. Other errors, such as a time-out, are returned
// unchanged.
func handshakeError(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
		refused *net.OpError
	)
	e := &Error{Kind: Unreachable, Err: err, What: fmt.Sprintf("the TLS handshake failed (%v)", err)}
	switch {
	case errors.As(err, &unknown):
		e.Try = "give the authority of its certificate (--cacert FILE), or do without its verification (--insecure)"
	case errors.As(err, &name):
		e.Try = "use the name or address that its certificate is for"
	case errors.As(err, &invalid):
		e.Try = "renew its certificate, or do without its verification (--insecure)"
	case errors.As(err, &record):
		e.Try = "use http:// or ws:// if it does not speak TLS"
	case errors.As(err, &refused) && refused.Op == "remote error":
		e.Try = "check that it speaks HTTP/1.1 and not HTTP/2 alone, TLS 1.2 or 1.3, and whether it wants a client's certificate"
	default:
		return err
	}
	return e
}
