// Package notices wires what operators are told: from what happens on a node to the rules, and from the outbox in PostgreSQL to
// mails and webhooks.
package notices

import (
	"net"
	netmail "net/mail"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/adapter/smtp"
	"github.com/runlot/runlot/internal/adapter/webhook"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

// Code is that of the fault that settings make no sense.
const Code = "notify_invalid"

// Settings are how operators are told, as they are given. Their meanings are in package cli, which reads them.
type Settings struct {
	// Rules are the names of those that are on, DefaultRules for none, and Old the age of the oldest message of a queue that is told of; 0 is never.
	Rules []string
	Old   time.Duration
	// To are the addresses that mails go to, and From where they come from; "" is celld at this machine.
	To   []string
	From string
	// SMTPURL is the mail server; see smtp.Parse. The password may also be in a file.
	SMTPURL, SMTPPasswordFile, SMTPCAFile string
	SMTPAllowPlain                        bool
	// Webhooks are addresses that are called, with a signature by the secrets in a file.
	Webhooks            []string
	WebhookSecretFile   string
	WebhookAllowPrivate bool
	// OperatorURL is where operators reach celld; "" is the address that it listens on.
	OperatorURL string
}

// Way is one way to tell operators.
type Way struct {
	notify.Channel

	// Mail is set when it goes by mail.
	Mail *smtp.Mailer
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, Code, format, args...)
}

// The names of the rules that are on unless others are chosen, and of all that can be.
var (
	DefaultRules = names(notify.DefaultRules)
	AllRules     = names(notify.AllRules)
)

func names(rules []notify.Rule) []string {
	list := make([]string, len(rules))
	for i := range rules {
		list[i] = string(rules[i])
	}
	return list
}

// rules are those that are on.
func (s *Settings) rules() (notify.Settings, error) {
	chosen := notify.Settings{Old: s.Old}
	if s.Old < 0 {
		return chosen, invalid("notify-old takes a time of 0 or more")
	}
	names := s.Rules
	if len(names) == 0 {
		names = DefaultRules
	}
	for _, name := range names {
		rule := notify.Rule(name)
		if !slices.Contains(notify.AllRules, rule) {
			return chosen, invalid("there is no rule %q to notify of", name).WithHint("the rules are %s", strings.Join(AllRules, ", "))
		}
		chosen.On = append(chosen.On, rule)
	}
	return chosen, nil
}

// Check refuses settings that make no sense, and files that cannot be read.
func (s *Settings) Check() error {
	if _, err := s.rules(); err != nil {
		return err
	}
	_, err := s.Ways("", "")
	return err
}

// Ways are the ways that are set up; none is fine. operator is the address that celld listens on for operators. Files are
// read now. Errors are faults of settings or files.
func (s *Settings) Ways(operator, version string) ([]Way, error) {
	operator, err := s.operator(operator)
	if err != nil {
		return nil, err
	}
	var ways []Way
	mailer, err := s.mailer(operator)
	if err != nil {
		return nil, err
	}
	if mailer != nil {
		ways = append(ways, Way{Channel: mailer, Mail: mailer})
	}
	if len(s.Webhooks) == 0 {
		return ways, nil
	}
	if len(s.Webhooks) > queue.MaxWebhooks {
		return nil, invalid("there are %d addresses in webhook-url; the most are %d", len(s.Webhooks), queue.MaxWebhooks)
	}
	if s.WebhookSecretFile == "" {
		return nil, invalid("webhook-url needs webhook-secret-file, the secret that calls are signed with").
			WithHint(`make one with: echo "whsec_$(openssl rand -base64 32)" > webhook.secret`)
	}
	secrets, err := webhook.ReadSecrets(s.WebhookSecretFile)
	if err != nil {
		return nil, err
	}
	for _, address := range s.Webhooks {
		hook, err := webhook.New(webhook.Options{URL: address, Secrets: secrets, AllowPrivate: s.WebhookAllowPrivate, Operator: operator, Version: version})
		if err != nil {
			return nil, err
		}
		ways = append(ways, Way{Channel: hook})
	}
	return ways, nil
}

// mailer is nil when nothing is to be mailed.
func (s *Settings) mailer(operator string) (*smtp.Mailer, error) {
	if s.SMTPURL == "" && len(s.To) == 0 {
		return nil, nil //nolint:nilnil // no mail is asked for
	}
	if s.SMTPURL == "" || len(s.To) == 0 {
		return nil, invalid("mails need both smtp-url, the mail server, and notify-to, who gets them").WithHint("set both, or neither")
	}
	if len(s.To) > queue.MaxRecipients {
		return nil, invalid("there are %d addresses in notify-to; the most are %d", len(s.To), queue.MaxRecipients).WithHint("let the mail server have a list")
	}
	server, err := smtp.Parse(s.SMTPURL, s.SMTPAllowPlain)
	if err != nil {
		return nil, err
	}
	if s.SMTPPasswordFile != "" {
		if server.User == "" || server.Password != "" {
			return nil, invalid("smtp-password-file is for an smtp-url that has a user and no password: smtps://user@host")
		}
		text, err := os.ReadFile(s.SMTPPasswordFile)
		if err != nil {
			return nil, fault.New(fault.Environment, Code, "the password in %s cannot be read", s.SMTPPasswordFile).WithHint("check that it exists and may be read").WithCause(err)
		}
		server.Password = strings.TrimRight(string(text), "\r\n")
	}
	if s.SMTPCAFile != "" {
		if server.Roots, err = smtp.ReadRoots(s.SMTPCAFile); err != nil {
			return nil, err
		}
	}
	o := smtp.Options{Server: server, Operator: operator}
	from := s.From
	if from == "" {
		from = "celld <celld@" + host() + ">"
	}
	sender, err := address("notify-from", from)
	if err != nil {
		return nil, err
	}
	o.From = *sender
	for _, text := range s.To {
		to, err := address("notify-to", text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(o.To, to.Address) {
			o.To = append(o.To, to.Address)
		}
	}
	return smtp.New(o), nil
}

func address(setting, text string) (*netmail.Address, error) {
	a, err := netmail.ParseAddress(text)
	if err != nil {
		return nil, invalid("%s: %q is no address of a mail", setting, text).WithHint("it looks like ann@example.com")
	}
	return a, nil
}

func host() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

// operator is where links lead to.
func (s *Settings) operator(listen string) (string, error) {
	if s.OperatorURL == "" {
		name, port, err := net.SplitHostPort(listen)
		if ip := net.ParseIP(name); err == nil && (name == "" || ip != nil && ip.IsUnspecified()) {
			listen = net.JoinHostPort(host(), port) // the one that it listens on is no address to go to
		}
		return "http://" + listen, nil
	}
	u, err := url.Parse(s.OperatorURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", invalid("%q is no address at which operators reach celld", s.OperatorURL).WithHint("operator-url looks like https://celld.example.com")
	}
	return strings.TrimRight(u.String(), "/"), nil
}
