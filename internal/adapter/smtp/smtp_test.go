package smtp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/smtp"
	"github.com/runlot/runlot/internal/adapter/smtp/smtptest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const operator = "https://celld.example.com"

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func start(t *testing.T, o smtptest.Options) *smtptest.Server {
	t.Helper()
	s, err := smtptest.Start(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// mailer mails to a server at an address like "smtp://user:password@127.0.0.1", to which the port is added.
func mailer(t *testing.T, address string, port int, authority []byte) *smtp.Mailer {
	t.Helper()
	server, err := smtp.Parse(fmt.Sprintf("%s:%d", address, port), false)
	if err != nil {
		t.Fatal(err)
	}
	if authority != nil {
		file := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(file, authority, 0o600); err != nil {
			t.Fatal(err)
		}
		if server.Roots, err = smtp.ReadRoots(file); err != nil {
			t.Fatal(err)
		}
	}
	return smtp.New(smtp.Options{
		Server: server, From: netmail.Address{Name: "celld", Address: "celld@example.com"}, To: []string{"ann@example.com", "ben@example.com"}, Operator: operator,
	})
}

func notice() *notify.Notice {
	return &notify.Notice{
		Rule: notify.QueueFailed, At: noon, Node: "a1", Database: "shop", Queue: "jobs", DeadLetterQueue: "jobs-dead", App: "shop", VersionNumber: 7,
		Since: noon.Add(-90 * time.Second), Count: 3, Outcome: queue.Failed,
		Error: &notify.Exception{Name: "TypeError", Message: "x <b>is</b> not a fünction", Location: "src/a.ts:3:7"},
	}
}

func delivery() *notify.Delivery {
	return &notify.Delivery{ID: 7, Way: "mail ann@example.com", Notice: notice(), Attempt: 1}
}

// certificate is for 127.0.0.1, with its authority.
var certificate, authority, _ = smtptest.Certificate("127.0.0.1")

func TestAMailArrives(t *testing.T) {
	for name, test := range map[string]struct {
		server  smtptest.Options
		address string
	}{
		"plain, on the loopback": {smtptest.Options{}, "smtp+plain://127.0.0.1"},
		"STARTTLS":               {smtptest.Options{Certificate: certificate}, "smtp://127.0.0.1"},
		"implicit TLS":           {smtptest.Options{Certificate: certificate, Implicit: true}, "smtps://127.0.0.1"},
		"STARTTLS with a login":  {smtptest.Options{Certificate: certificate, User: "me@example.com", Password: "s3 cret"}, "smtp://me%40example.com:s3%20cret@127.0.0.1"},
		"TLS with a login":       {smtptest.Options{Certificate: certificate, Implicit: true, User: "me", Password: "secret"}, "smtps://me:secret@127.0.0.1"},
		"a login, in the clear":  {smtptest.Options{User: "me", Password: "secret"}, "smtp+plain://me:secret@127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, test.server)
			m := mailer(t, test.address, server.Port, authority)
			if err := m.Verify(t.Context()); err != nil {
				t.Error(fault.Detail(err))
			}
			if err := m.Send(t.Context(), delivery()); err != nil {
				t.Fatal(fault.Detail(err))
			}
			mails := server.Wait(1, t.Context().Done())
			if len(mails) != 1 || mails[0].From != "celld@example.com" || !slices.Equal(mails[0].To, []string{"ann@example.com"}) {
				t.Errorf("mails %+v", mails)
			}
		})
	}
}

// parts are the texts of a mail by their types.
func parts(t *testing.T, text string) (header netmail.Header, byType map[string]string) {
	t.Helper()
	msg, err := netmail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("a mail of type %s, error %v", kind, err)
	}
	byType = map[string]string{}
	for reader := multipart.NewReader(msg.Body, params["boundary"]); ; {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return msg.Header, byType
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		byType[kind] = strings.ReplaceAll(string(body), "\r\n", "\n")
	}
}

func subject(t *testing.T, h netmail.Header) string {
	t.Helper()
	text, err := (&mime.WordDecoder{}).DecodeHeader(h.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatAMailHolds(t *testing.T) {
	server := start(t, smtptest.Options{})
	m := mailer(t, "smtp+plain://127.0.0.1", server.Port, nil)
	if want := []string{"mail ann@example.com", "mail ben@example.com"}; !slices.Equal(m.Ways(), want) {
		t.Errorf("ways %q", m.Ways())
	}
	for range 2 {
		if err := m.Send(t.Context(), delivery()); err != nil {
			t.Fatal(fault.Detail(err))
		}
	}
	mails := server.Wait(2, t.Context().Done())
	header, byType := parts(t, mails[0].Text)
	if got := subject(t, header); got != "[celld] jobs: three batches failed in a row" {
		t.Errorf("subject %q", got)
	}
	for name, want := range map[string]string{
		"To": "<ann@example.com>", "From": `"celld" <celld@example.com>`, "Auto-Submitted": "auto-generated",
		"Message-Id": fmt.Sprintf("<notice-7-%d.queue_failed@example.com>", noon.UnixMilli()),
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if again, _ := parts(t, mails[1].Text); again.Get("Message-Id") != header.Get("Message-Id") {
		t.Error("a mail that is sent again is another one")
	}
	described := notify.Describe(notice())
	if want := described.Plain(operator); byType["text/plain"] != want {
		t.Errorf("text:\n%s\nnot\n%s", byType["text/plain"], want)
	}
	for _, want := range []string{
		"TypeError: x &lt;b&gt;is&lt;/b&gt; not a fünction", "at src/a.ts:3:7", "runlot queue batches jobs --database shop",
		`href="https://celld.example.com/databases/shop/queues/jobs"`, "2026-11-30 11:58:30 UTC", "Leave queue_failed out",
	} {
		if !strings.Contains(byType["text/html"], want) {
			t.Errorf("the page lacks %q:\n%s", want, byType["text/html"])
		}
	}
}

// TestNothingIsInjected: names and errors of users reach neither the header nor the markup of a mail.
func TestNothingIsInjected(t *testing.T) {
	server := start(t, smtptest.Options{})
	m := mailer(t, "smtp+plain://127.0.0.1", server.Port, nil)
	const evil = "jobs\r\nBcc: eve@example.com\r\n\r\n.\r\n<script>alert(1)</script>\" onload=\"x"
	for _, rule := range append([]notify.Rule{notify.QueueOld, notify.Test}, notify.AllRules...) {
		d := delivery()
		d.Notice = &notify.Notice{
			Rule: rule, At: noon, Node: evil, Database: evil, Queue: evil, DeadLetterQueue: evil, App: evil, Version: evil,
			Error: &notify.Exception{Name: evil, Message: evil, Location: evil}, Reason: evil,
		}
		if rule == notify.CronFailed {
			d.Notice.Cron, d.Notice.Queue = evil, ""
		}
		if err := m.Send(t.Context(), d); err != nil {
			t.Fatalf("%s: %s", rule, fault.Detail(err))
		}
	}
	mails := server.Wait(2+len(notify.AllRules), t.Context().Done())
	for i := range mails {
		header, byType := parts(t, mails[i].Text)
		if !slices.Equal(mails[i].To, []string{"ann@example.com"}) || header.Get("Bcc") != "" || len(header) > 12 {
			t.Errorf("receivers %q, header %q", mails[i].To, header)
		}
		if page := byType["text/html"]; strings.Contains(page, "<script") || strings.Contains(page, `" onload`) {
			t.Errorf("a page with a script:\n%s", page)
		}
		if strings.ContainsAny(subject(t, header), "\r\n") {
			t.Errorf("subject %q", subject(t, header))
		}
	}
}

// hang is a server that takes connections and says nothing.
func hang(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestWhatGoesWrong(t *testing.T) {
	other, otherAuthority, err := smtptest.Certificate("mail.example.com")
	if err != nil {
		t.Fatal(err)
	}
	closed := hang(t)
	refusing := func(code int, text string) smtptest.Options {
		return smtptest.Options{Rcpt: func(string) error { return smtptest.Refusal(code, text) }}
	}
	for name, test := range map[string]struct {
		server    *smtptest.Options
		address   string
		authority []byte
		code, say string
		refused   bool
	}{
		"nobody listens":         {nil, "smtp://127.0.0.1", nil, smtp.CodeUnreachable, "refuses connections", false},
		"no such name":           {nil, "smtp://mail.invalid", nil, smtp.CodeUnreachable, "mail.invalid", false},
		"a name that is another": {&smtptest.Options{Certificate: other}, "smtp://127.0.0.1", otherAuthority, smtp.CodeTLS, "127.0.0.1", false},
		"the same, implicit":     {&smtptest.Options{Certificate: other, Implicit: true}, "smtps://localhost", otherAuthority, smtp.CodeTLS, "is for mail.example.com, not for localhost", false},
		"nobody's certificate":   {&smtptest.Options{Certificate: certificate}, "smtp://127.0.0.1", nil, smtp.CodeTLS, "is not trusted", false},
		"no STARTTLS":            {&smtptest.Options{}, "smtp://127.0.0.1", nil, smtp.CodeTLS, "offers no STARTTLS", false},
		"no TLS":                 {&smtptest.Options{}, "smtps://127.0.0.1", nil, smtp.CodeTLS, "does not speak TLS", false},
		"a wrong password":       {&smtptest.Options{Certificate: certificate, User: "me", Password: "x"}, "smtp://me:y@127.0.0.1", authority, smtp.CodeLogin, `does not let "me" in`, false},
		"no password":            {&smtptest.Options{User: "me", Password: "x"}, "smtp+plain://127.0.0.1", nil, smtp.CodeLogin, "wants a login", false},
		"no login there":         {&smtptest.Options{}, "smtp+plain://me:y@127.0.0.1", nil, smtp.CodeLogin, "no way to log in", false},
		"not now":                {new(refusing(450, "come back")), "smtp+plain://127.0.0.1", nil, smtp.CodeDeferred, "takes no mail now: 450", false},
		"never":                  {new(refusing(550, "nobody of this name")), "smtp+plain://127.0.0.1", nil, smtp.CodeRefused, "to ann@example.com: 550", true},
		"never, after the mail":  {&smtptest.Options{Data: func() error { return smtptest.Refusal(554, "looks like spam") }}, "smtp+plain://127.0.0.1", nil, smtp.CodeRefused, "looks like spam", true},
		"not now, after it":      {&smtptest.Options{Data: func() error { return smtptest.Refusal(451, "full") }}, "smtp+plain://127.0.0.1", nil, smtp.CodeDeferred, "451", false},
	} {
		t.Run(name, func(t *testing.T) {
			port := closed
			if test.server != nil {
				port = start(t, *test.server).Port
			} else if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
				port = l.Addr().(*net.TCPAddr).Port
				_ = l.Close()
			}
			m := mailer(t, test.address, port, test.authority)
			err := m.Send(t.Context(), delivery())
			f := fault.From(err)
			if f == nil || f.Code != test.code || !strings.Contains(f.Message, test.say) || f.Hint == "" && f.Code != smtp.CodeDeferred {
				t.Errorf("error %s\n%s", fault.Detail(err), fmt.Sprintf("%+v", f))
			}
			if errors.Is(err, notify.ErrRefused) != test.refused {
				t.Errorf("refused for good: %v; %s", !test.refused, fault.Detail(err))
			}
			if strings.Contains(fault.Detail(err), ":y@") {
				t.Error("the error tells the password")
			}
		})
	}
}

// TestAHangingServer: a call ends with its context.
func TestAHangingServer(t *testing.T) {
	m := mailer(t, "smtp://127.0.0.1", hang(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := m.Send(ctx, delivery()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := m.Send(ctx, delivery()); err == nil || fault.From(err).Code != smtp.CodeUnreachable {
		t.Errorf("error %v", err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"smtp://mail.example.com":                     "mail.example.com:587 0  ",
		"smtp://me@mail.example.com:25":               "mail.example.com:25 0 me ",
		"smtps://me%40example.com:p%2Fw@mail.example": "mail.example:465 1 me@example.com p/w",
		"smtp+plain://localhost":                      "localhost:25 2  ",
		"smtp+plain://[::1]:2525":                     "[::1]:2525 2  ",
		"smtp+plain://me@127.0.0.1":                   "127.0.0.1:25 2 me ",
		"smtp+plain://mail.example.com":               "mails would go to mail.example.com:25 in the clear",
		"https://mail.example.com":                    "is no address of a mail server",
		"mail.example.com:25":                         "is no address of a mail server",
		"smtp://":                                     "is no address of a mail server",
		"smtp://a/b":                                  "is no address of a mail server",
		"smtp://a?tls=no":                             "is no address of a mail server",
		"smtp://a:0":                                  "0 is no port",
		"smtp://a:70000":                              "70000 is no port",
		"smtp://me:p%zz@a":                            "makes no sense",
	} {
		s, err := smtp.Parse(text, false)
		var got string
		if err == nil {
			got = fmt.Sprintf("%s %d %s %s", s.Address(), s.Security, s.User, s.Password)
		} else {
			got = err.Error()
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) || strings.Contains(got, "p%zz") {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	if s, err := smtp.Parse("smtp+plain://mail.example.com", true); err != nil || s.Security != smtp.Plain {
		t.Errorf("%+v, error %v", s, err)
	}
	if _, err := smtp.Parse("smtp+plain://me:pw@mail.example.com", true); err == nil {
		t.Error("a password goes in the clear")
	}
}

func TestReadRoots(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if _, err := smtp.ReadRoots(file); err == nil {
		t.Error("a file that does not exist")
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := smtp.ReadRoots(file); err == nil || !strings.Contains(err.Error(), "has no certificate") {
		t.Errorf("error %v", err)
	}
}
