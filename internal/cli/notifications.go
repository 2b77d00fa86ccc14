package cli

import (
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/celld/notices"
)

// notificationSettings are the names of the settings about notifications.
var notificationSettings = []string{
	"operator-url", "notify", "notify-old", "notify-to", "notify-from", "smtp-url", "smtp-password-file", "smtp-ca", "smtp-allow-plain",
	"webhook-url", "webhook-secret-file", "webhook-allow-private",
}

func defineNotifications(f *pflag.FlagSet, s *notices.Settings) {
	f.StringVar(&s.OperatorURL, "operator-url", "", "`URL` at which operators reach celld, for\nthe links in mails (default http:// and the\noperator address)")
	f.StringArrayVar(&s.Rules, "notify", nil, "`RULE` to tell operators of, once for each:\n"+ruleNames(notices.AllRules)+"\n(default the first three)")
	f.DurationVar(&s.Old, "notify-old", 0, "tell of queues whose oldest message is\nolder than this `TIME`; 0 is never")
	f.StringArrayVar(&s.To, "notify-to", nil, "mail `ADDRESS` to be told, once for each")
	f.StringVar(&s.From, "notify-from", "", "mail `ADDRESS` that mails come from\n(default celld at this machine's name)")
	f.StringVar(&s.SMTPURL, "smtp-url", "", "`URL` of the mail server:\nsmtp://user@host:587 for STARTTLS,\nsmtps://user@host:465 for TLS,\nsmtp+plain://127.0.0.1:25 for none")
	f.StringVar(&s.SMTPPasswordFile, "smtp-password-file", "", "`FILE` of the user's password")
	f.StringVar(&s.SMTPCAFile, "smtp-ca", "", "`FILE` of the authority of the mail server's\ncertificate, in PEM, in place of the system's")
	f.BoolVar(&s.SMTPAllowPlain, "smtp-allow-plain", false, "let smtp+plain go beyond this machine")
	f.StringArrayVar(&s.Webhooks, "webhook-url", nil, "`URL` to be called, once for each")
	f.StringVar(&s.WebhookSecretFile, "webhook-secret-file", "", "`FILE` of the secret that calls are signed with")
	f.BoolVar(&s.WebhookAllowPrivate, "webhook-allow-private", false, "let webhooks be at private addresses")
}

// ruleNames are names on lines that are short enough for a help.
func ruleNames(names []string) string {
	const most = 3 // on a line
	var lines []string
	for line := range slices.Chunk(names, most) {
		lines = append(lines, strings.Join(line, ", "))
	}
	return strings.Join(lines, ",\n")
}

// guardPassword refuses a password on the command line, where every user of the machine can read it. It comes before the
// settings are read from elsewhere.
func guardPassword(c *cobra.Command, s *notices.Settings) error {
	u, err := url.Parse(s.SMTPURL)
	if err != nil || u.User == nil || !c.Flags().Changed("smtp-url") {
		return nil //nolint:nilerr // what makes no sense is found out later
	}
	if _, ok := u.User.Password(); ok {
		return fault.New(fault.Invalid, notices.Code, "the password of --smtp-url can be read by every user of this machine").
			WithHint("put it into a file, and name that with --smtp-password-file; or put smtp-url into the file of --config")
	}
	return nil
}
