package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

// Options are what a Mailer is made of.
type Options struct {
	Server *Server
	// From is the sender and To the receivers; each gets a mail of their own.
	From netmail.Address
	To   []string
	// Operator is the address of celld's pages for operators, without a slash at its end.
	Operator string
}

// Mailer implements notify.Channel by mail. Each try has a connection of its own.
type Mailer struct{ o Options }

var _ notify.Channel = (*Mailer)(nil)

// New returns a mailer. From and To have to be valid addresses.
func New(o Options) *Mailer { return &Mailer{o} }

const way = "mail "

// Ways implements notify.Channel: one for each receiver, so that one that is refused keeps no other from being told.
func (m *Mailer) Ways() []string {
	ways := make([]string, len(m.o.To))
	for i := range m.o.To {
		ways[i] = way + m.o.To[i]
	}
	return ways
}

// Send implements notify.Channel. Its errors are faults.
func (m *Mailer) Send(ctx context.Context, d *notify.Delivery) error {
	to := strings.TrimPrefix(d.Way, way)
	msg, err := m.compose(d, to)
	if err != nil {
		return fault.New(fault.Invalid, CodeRefused, "there is no mail to %s of this", to).WithCause(errors.Join(notify.ErrRefused, err))
	}
	return m.connected(ctx, func(client *mail.Client) error {
		err := client.Send(msg)
		if msg.IsDelivered() {
			return nil // the server has it; what came after that changes nothing
		}
		return err
	}, to)
}

// Verify connects and logs in, and sends nothing. Its errors are those of Send.
func (m *Mailer) Verify(ctx context.Context) error {
	return m.connected(ctx, func(*mail.Client) error { return nil }, "")
}

// connected calls use with a client that is connected and logged in, all within queue.NotifyTime.
func (m *Mailer) connected(ctx context.Context, use func(*mail.Client) error, to string) error {
	ctx, cancel := context.WithTimeout(ctx, queue.NotifyTime)
	defer cancel()
	s := m.o.Server
	config := &tls.Config{ServerName: s.Host, RootCAs: s.Roots, MinVersion: tls.VersionTLS12}
	dial := func(dialCtx context.Context, network, address string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(dialCtx, network, address)
		if err != nil {
			return nil, err
		}
		// The end of ctx, which comes with that of this call, ends whatever the server keeps us waiting for.
		context.AfterFunc(ctx, func() { _ = raw.Close() })
		if s.Security != ImplicitTLS {
			return raw, nil
		}
		protected := tls.Client(raw, config)
		return protected, protected.HandshakeContext(dialCtx)
	}
	options := []mail.Option{
		mail.WithPort(s.Port), mail.WithTimeout(queue.NotifyTime), mail.WithTLSConfig(config), mail.WithDialContextFunc(dial), mail.WithoutNoop(), mail.WithoutSMTPUTF8(),
	}
	switch s.Security {
	case StartTLS:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	case ImplicitTLS:
		options = append(options, mail.WithSSL())
	case Plain:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if s.User != "" {
		// The password itself is sent over TLS and to the loopback only; the others never send it.
		options = append(options, mail.WithUsername(s.User), mail.WithPassword(s.Password),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin, mail.SMTPAuthCramMD5))
	}
	client, err := mail.NewClient(s.Host, options...)
	if err != nil {
		return err
	}
	err = client.DialWithContext(ctx)
	if err == nil {
		if err = use(client); err == nil {
			_ = client.Close() // a polite end; the connection is closed anyway
			return nil
		}
	}
	return m.explain(ctx, err, to)
}

// explain says what a person can do about an error.
func (m *Mailer) explain(ctx context.Context, err error, to string) error {
	s := m.o.Server
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	code, said := answer(err)
	switch {
	case code == 0 && (ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)):
		return fault.New(fault.Unavailable, CodeUnreachable, "the mail server %s did not answer within %d s", s.Address(), queue.NotifyTime/time.Second).
			WithHint("check that the port is the right one for this kind of TLS, and that no firewall is in the way").WithCause(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault.New(fault.Unavailable, CodeUnreachable, "the mail server %s refuses connections", s.Address()).WithHint("check the host and the port of smtp-url").WithCause(err)
	}
	if f := m.explainTLS(err); f != nil {
		return f
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fault.New(fault.Unavailable, CodeUnreachable, "the mail server %s is not found: %s", s.Host, e.Err).WithHint("check the host of smtp-url").WithCause(err)
	}
	sending, isSending := errors.AsType[*mail.SendError](err)
	switch {
	case !isSending && (code == 530 || code == 534 || code == 535 || code == 538 || code == 454 && s.User != ""):
		return fault.New(fault.Unavailable, CodeLogin, "the mail server %s does not let %q in: %s", s.Host, s.User, said).WithHint("check the user of smtp-url and its password").WithCause(err)
	case !isSending && code == 0 && s.User != "" && strings.Contains(strings.ToLower(err.Error()), "auth"):
		return fault.New(fault.Unavailable, CodeLogin, "the mail server %s has no way to log in that we know: %s", s.Host, err).
			WithHint("leave the user out of smtp-url if it needs none; over smtp+plain most servers take none").WithCause(err)
	case isSending && code >= 500 && code != 530 && code != 535:
		f := fault.New(fault.Invalid, CodeRefused, "the mail server %s refuses a mail from %s to %s: %s", s.Host, m.o.From.Address, to, said)
		return f.WithHint("check both addresses, and that the server sends mails for this user").WithCause(errors.Join(notify.ErrRefused, err))
	case isSending && code >= 500:
		return fault.New(fault.Unavailable, CodeLogin, "the mail server %s wants a login first: %s", s.Host, said).WithHint("give smtp-url a user, and its password").WithCause(sending)
	case code != 0:
		return fault.New(fault.Unavailable, CodeDeferred, "the mail server %s takes no mail now: %s", s.Host, said).WithCause(err)
	default:
		return fault.New(fault.Unavailable, CodeUnreachable, "the mail server %s does not answer as one: %s", s.Address(), err).
			WithHint("check the port of smtp-url: 587 for smtp://, 465 for smtps://").WithCause(err)
	}
}

// explainTLS is nil for an error that has nothing to do with TLS.
func (m *Mailer) explainTLS(err error) error {
	s := m.o.Server
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		names := "other names"
		if e.Certificate != nil && len(e.Certificate.DNSNames) > 0 {
			names = strings.Join(e.Certificate.DNSNames[:min(len(e.Certificate.DNSNames), 5)], ", ")
		}
		return fault.New(fault.Unavailable, CodeTLS, "the certificate of the mail server is for %s, not for %s", names, s.Host).
			WithHint("put the name that is in the certificate into smtp-url").WithCause(err)
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fault.New(fault.Unavailable, CodeTLS, "the certificate of the mail server %s is not trusted: %s", s.Host, e.Err).
			WithHint("name the file of its authority with smtp-ca").WithCause(err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fault.New(fault.Unavailable, CodeTLS, "%s does not speak TLS from the first byte", s.Address()).WithHint("use smtp:// for STARTTLS, usually on port 587").WithCause(err)
	}
	if s.Security == StartTLS && strings.Contains(err.Error(), "does not support STARTTLS") {
		return fault.New(fault.Unavailable, CodeTLS, "the mail server %s offers no STARTTLS", s.Address()).
			WithHint("use smtps:// for TLS from the first byte, usually on port 465").WithCause(err)
	}
	return nil
}

// answer is what a server said, with its code; 0 when it is not what went wrong.
func answer(err error) (code int, said string) {
	if e, ok := errors.AsType[*textproto.Error](err); ok {
		return e.Code, fmt.Sprintf("%d %s", e.Code, strings.Join(strings.Fields(e.Msg), " "))
	}
	if e, ok := errors.AsType[*mail.SendError](err); ok && e.ErrorCode() != 0 {
		// Its text begins with our words for the step, and ends with what the mail was.
		said := e.Error()
		if i := strings.Index(said, strconv.Itoa(e.ErrorCode())); i >= 0 {
			said = said[i:]
		}
		said, _, _ = strings.Cut(said, ", affected")
		return e.ErrorCode(), strings.Join(strings.Fields(said), " ")
	}
	return 0, ""
}

// compose writes the mail.
func (m *Mailer) compose(d *notify.Delivery, to string) (*mail.Msg, error) {
	described := notify.Describe(d.Notice)
	msg := mail.NewMsg()
	if err := msg.FromFormat(m.o.From.Name, m.o.From.Address); err != nil {
		return nil, err
	}
	if err := msg.To(to); err != nil {
		return nil, err
	}
	page, err := html(&described, m.o.Operator)
	if err != nil {
		return nil, err
	}
	msg.Subject("[celld] " + described.Title)
	msg.SetDateWithValue(time.Now())
	msg.SetMessageIDWithValue(messageID(d, m.o.From.Address))
	// Nobody's holiday is to answer.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")
	msg.SetBodyString(mail.TypeTextPlain, described.Plain(m.o.Operator))
	msg.AddAlternativeString(mail.TypeTextHTML, page)
	return msg, nil
}

// messageID is the same at every try, so that readers show a mail that was sent twice once.
func messageID(d *notify.Delivery, from string) string {
	_, domain, _ := strings.Cut(from, "@")
	return fmt.Sprintf("notice-%d-%d.%s@%s", d.ID, d.Notice.At.UnixMilli(), d.Notice.Rule, domain)
}
