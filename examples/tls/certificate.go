package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hone-go/hone/tlsfiles"
)

// loadOrMake loads a certificate and its key, now and whenever the files change, or creates
// both if no files are given. With clientCA, clients need a certificate too.
func loadOrMake(cert, key, clientCA string, logger *slog.Logger) (*tls.Config, error) {
	if cert == "" && key == "" && clientCA == "" {
		certificate, err := selfSigned()
		return &tls.Config{Certificates: []tls.Certificate{certificate}}, err
	}
	config, err := tlsfiles.Server{Cert: cert, Key: key, ClientCA: clientCA, Logger: logger}.Config()
	if err != nil {
		return nil, fmt.Errorf("%w; give two matching PEM files with -cert and -key, or neither; -client-ca, a PEM file of authorities, needs both", err)
	}
	return config, nil
}

// selfSigned creates a certificate for this machine, valid for a day and in memory only:
// enough for trying things out, and for tests.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "examples/tls"},
		NotBefore:   time.Now().Add(-time.Hour), // clocks may differ
		NotAfter:    time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// fingerprint is the SHA-256 of a certificate, in hexadecimal.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
