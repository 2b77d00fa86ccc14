// Package smtp mails notices to operators.
package smtp

import (
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
)

// Security is how the way to a server is protected.
type Security int

// The kinds of it.
const (
	// StartTLS begins in the clear and goes on with TLS before anything else, or not at all.
	StartTLS Security = iota
	// ImplicitTLS is TLS from the first byte.
	ImplicitTLS
	// Plain is none.
	Plain
)

// Codes of faults.
const (
	// CodeAddress: a setting of the mail server makes no sense.
	CodeAddress = "smtp_url"
	// CodeUnreachable: the server does not answer, or not in time.
	CodeUnreachable = "smtp_unreachable"
	// CodeTLS: the connection cannot be protected: no TLS, or a certificate that is not trusted.
	CodeTLS = "smtp_tls"
	// CodeLogin: the server does not take the user or the password.
	CodeLogin = "smtp_login"
	// CodeDeferred: the server does not take the mail now.
	CodeDeferred = "smtp_deferred"
	// CodeRefused: the server does not take the mail, and never will.
	CodeRefused = "smtp_refused"
)

// Server is a mail server and how to log in.
type Server struct {
	Host     string
	Port     int
	Security Security
	// User is "" for a server that asks for none.
	User, Password string
	// Roots are the authorities whose certificates are trusted; nil for those of the system.
	Roots *x509.CertPool
}

// Address is host:port.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// The schemes of addresses of servers, with their ports.
var schemes = map[string]struct {
	security Security
	port     int
}{"smtp": {StartTLS, 587}, "smtps": {ImplicitTLS, 465}, "smtp+plain": {Plain, 25}}

// Parse reads the address of a server: smtp://user@host:587 with STARTTLS, smtps://user@host:465 with TLS from the first byte,
// smtp+plain://host:25 without. The last goes to the loopback only unless allowPlain, and takes a password nowhere else.
func Parse(text string, allowPlain bool) (*Server, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, CodeAddress, format, args...).
			WithHint("it looks like smtp://user@mail.example.com:587 (STARTTLS), smtps://user@mail.example.com:465 (TLS) or smtp+plain://127.0.0.1:25")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, bad("the address of the mail server makes no sense") // the error would repeat a password
	}
	scheme, known := schemes[u.Scheme]
	if !known || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, bad("%s is no address of a mail server", u.Redacted())
	}
	s := &Server{Host: u.Hostname(), Port: scheme.port, Security: scheme.security}
	if p := u.Port(); p != "" {
		if s.Port, err = strconv.Atoi(p); err != nil || s.Port < 1 || s.Port > 65535 {
			return nil, bad("%s is no port", p)
		}
	}
	if u.User != nil {
		s.User = u.User.Username()
		s.Password, _ = u.User.Password()
	}
	if s.Security == Plain && !loopback(s.Host) {
		if !allowPlain {
			return nil, fault.New(fault.Invalid, CodeAddress, "mails would go to %s in the clear", s.Address()).
				WithHint("use smtp:// or smtps://, or allow it with smtp-allow-plain")
		}
		if s.User != "" {
			return nil, fault.New(fault.Invalid, CodeAddress, "the password of %s would go to %s in the clear", s.User, s.Address()).WithHint("use smtp:// or smtps://")
		}
	}
	return s, nil
}

// ReadRoots reads a file of authorities, in PEM.
func ReadRoots(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.New(fault.Environment, CodeTLS, "the certificates in %s cannot be read", file).WithHint("check that it exists and may be read").WithCause(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fault.New(fault.Invalid, CodeTLS, "%s has no certificate", file).WithHint("name a file in PEM: -----BEGIN CERTIFICATE-----")
	}
	return pool, nil
}

func loopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}
