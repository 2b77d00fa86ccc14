// Package smtptest is a real mail server on the loopback for tests, and certificates for it.
package smtptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Options are how a server behaves. The zero value takes every mail, in the clear.
type Options struct {
	// Certificate lets it offer STARTTLS, or, with Implicit, speak TLS from the first byte.
	Certificate *tls.Certificate
	Implicit    bool
	// User and Password have to be given when they are set.
	User, Password string
	// Rcpt and Data, when set, are asked whether a receiver and a mail are taken.
	Rcpt func(to string) error
	Data func() error
}

// Refusal is an answer of the server.
func Refusal(code int, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1}, Message: text}
}

// Mail is a mail that came.
type Mail struct {
	From string
	To   []string
	// Text is the mail as it was on the wire.
	Text string
}

// Read returns the subject and the plain text of a mail.
func (m *Mail) Read() (subject, text string, err error) {
	msg, err := mail.ReadMessage(strings.NewReader(m.Text))
	if err != nil {
		return "", "", err
	}
	if subject, err = (&mime.WordDecoder{}).DecodeHeader(msg.Header.Get("Subject")); err != nil {
		return "", "", err
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return "", "", err
	}
	part, err := multipart.NewReader(msg.Body, params["boundary"]).NextPart() // which decodes it
	if err != nil {
		return "", "", err
	}
	body, err := io.ReadAll(part)
	return subject, strings.ReplaceAll(string(body), "\r\n", "\n"), err
}

// Server is a mail server.
type Server struct {
	Port   int
	o      Options
	server *smtp.Server
	done   chan struct{}

	mu      sync.Mutex
	mails   []Mail        // guarded by mu
	arrived chan struct{} // closed and replaced with each mail; guarded by mu
}

// Start begins to serve on 127.0.0.1, on a port of the system's choice or on the one that is given. Close ends it.
func Start(o Options, port int) (*Server, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, Port: l.Addr().(*net.TCPAddr).Port, done: make(chan struct{}), arrived: make(chan struct{})} //nolint:errcheck // it is one
	s.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }))
	s.server.Domain, s.server.AllowInsecureAuth = "localhost", true
	s.server.ErrorLog = log.New(io.Discard, "", 0)
	var listener net.Listener = l
	if o.Certificate != nil {
		config := &tls.Config{Certificates: []tls.Certificate{*o.Certificate}, MinVersion: tls.VersionTLS12}
		if o.Implicit {
			listener = tls.NewListener(l, config)
		} else {
			s.server.TLSConfig = config
		}
	}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

// Close ends the server and its connections.
func (s *Server) Close() {
	_ = s.server.Close()
	<-s.done
}

// Wait returns the mails when there are n, or those that there are when cut is closed.
func (s *Server) Wait(n int, cut <-chan struct{}) []Mail {
	for {
		s.mu.Lock()
		mails, arrived := slices.Clone(s.mails), s.arrived
		s.mu.Unlock()
		if len(mails) >= n {
			return mails
		}
		select {
		case <-arrived:
		case <-cut:
			return mails
		}
	}
}

// session is one connection.
type session struct {
	server *Server
	in     bool
	letter Mail
}

func (c *session) AuthMechanisms() []string {
	if c.server.o.User == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (c *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != c.server.o.User || password != c.server.o.Password {
			return errors.New("wrong")
		}
		c.in = true
		return nil
	}), nil
}

func (c *session) Mail(from string, _ *smtp.MailOptions) error {
	if c.server.o.User != "" && !c.in {
		return Refusal(530, "authentication required")
	}
	c.letter = Mail{From: from}
	return nil
}

func (c *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if c.server.o.Rcpt != nil {
		if err := c.server.o.Rcpt(to); err != nil {
			return err
		}
	}
	c.letter.To = append(c.letter.To, to)
	return nil
}

func (c *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if c.server.o.Data != nil {
		if err := c.server.o.Data(); err != nil {
			return err
		}
	}
	c.letter.Text = string(text)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.mails = append(c.server.mails, c.letter)
	close(c.server.arrived)
	c.server.arrived = make(chan struct{})
	return nil
}

func (*session) Reset() {}

func (*session) Logout() error { return nil }

// Certificate makes one for names, host names and addresses, and returns its authority's in PEM.
func Certificate(names ...string) (certificate *tls.Certificate, authority []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
