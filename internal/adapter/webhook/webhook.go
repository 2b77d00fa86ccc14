// Package webhook sends notices to programs: as calls that are signed as the Standard Webhooks specification says.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

// Codes of faults.
const (
	// CodeAddress: an address or a secret makes no sense.
	CodeAddress = "webhook_url"
	// CodeUnreachable: the receiver does not answer, or is at an address that is not allowed.
	CodeUnreachable = "webhook_unreachable"
	// CodeAnswer: the receiver did not take the call.
	CodeAnswer = "webhook_answer"
)

// Options are what a Hook is made of.
type Options struct {
	URL string
	// Secrets sign each call, every one of them: a receiver that knows one of two can be given the other.
	Secrets [][]byte
	// AllowPrivate lets calls go to private addresses.
	AllowPrivate bool
	// Operator is the address of celld's pages for operators, without a slash at its end.
	Operator string
	Version  string
}

// Hook implements notify.Channel by calls to one address.
type Hook struct {
	o      Options
	way    string
	client *http.Client
}

var _ notify.Channel = (*Hook)(nil)

// errPrivate says that an address is not a public one.
var errPrivate = errors.New("a private address")

// New returns a hook for an address: https, or http on the loopback.
func New(o Options) (*Hook, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, CodeAddress, format, args...).WithHint("it looks like https://hooks.example.com/celld")
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Hostname() == "" || u.Fragment != "" {
		return nil, bad("the address of a webhook makes no sense") // it may hold a secret
	}
	local := loopback(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return nil, bad("the webhook on %s is not called over https", u.Host)
	}
	if len(o.Secrets) == 0 {
		return nil, fault.New(fault.Invalid, CodeAddress, "the webhook on %s has no secret to be signed with", u.Host).
			WithHint("name the file of one with webhook-secret-file")
	}
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		if o.AllowPrivate || public(address) || local && isLoopback(address) {
			return nil
		}
		return errPrivate
	}}
	sum := sha256.Sum256([]byte(o.URL))
	const shown = 4 // bytes that tell addresses on one host apart
	return &Hook{
		o: o, way: "webhook " + u.Host + " " + hex.EncodeToString(sum[:shown]),
		client: &http.Client{
			Timeout:       queue.WebhookTime,
			Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, ForceAttemptHTTP2: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Ways implements notify.Channel. The address itself is not told: it may hold a secret.
func (h *Hook) Ways() []string { return []string{h.way} }

// Payload is the body of a call, as the specification wants it.
type Payload struct {
	// Type is the rule.
	Type notify.Rule `json:"type"`
	// Timestamp is when it was noticed.
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data is a notice with its words.
type Data struct {
	*notify.Notice

	Title    string   `json:"title"`
	Text     string   `json:"text"`
	Commands []string `json:"commands,omitempty"`
	URL      string   `json:"url"`
}

// Send implements notify.Channel. Its errors are faults. Each answer but 2xx is a failure, and 410 Gone one for good.
func (h *Hook) Send(ctx context.Context, d *notify.Delivery) error {
	m := notify.Describe(d.Notice)
	body, err := json.Marshal(Payload{
		Type: d.Notice.Rule, Timestamp: d.Notice.At.UTC(),
		Data: Data{Notice: d.Notice, Title: m.Title, Text: m.Lead, Commands: m.Commands, URL: h.o.Operator + m.Path},
	})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	// The same at every try, so that a receiver can leave out what came twice.
	id := fmt.Sprintf("notice_%d_%d", d.ID, d.Notice.At.UnixMilli())
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "celld/"+h.o.Version)
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", at)
	r.Header.Set("Webhook-Signature", Sign(h.o.Secrets, id, at, body))
	response, err := h.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return h.explain(r.URL.Host, err)
	}
	defer response.Body.Close()
	const read = 1 << 10
	_, _ = io.CopyN(io.Discard, response.Body, read)
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return fault.New(fault.Unavailable, CodeAnswer, "the webhook on %s sends us elsewhere: %s", r.URL.Host, response.Status).
			WithHint("give webhook-url the address that it moved to: redirects are not followed")
	case code == http.StatusGone:
		return fault.New(fault.Invalid, CodeAnswer, "the webhook on %s is gone: %s", r.URL.Host, response.Status).
			WithHint("take it out of webhook-url").WithCause(notify.ErrRefused)
	default:
		return fault.New(fault.Unavailable, CodeAnswer, "the webhook on %s answers %s", r.URL.Host, response.Status).WithHint("look at the log of its server")
	}
}

func (h *Hook) explain(host string, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the address, which may hold a secret
	}
	f := fault.New(fault.Unavailable, CodeUnreachable, "the webhook on %s does not answer: %s", host, err).WithCause(err)
	switch {
	case errors.Is(err, errPrivate):
		return fault.New(fault.Unavailable, CodeUnreachable, "the webhook on %s is at a private address", host).
			WithHint("allow it with webhook-allow-private").WithCause(err)
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return fault.New(fault.Unavailable, CodeUnreachable, "the webhook on %s did not answer within %d s", host, queue.WebhookTime/time.Second).
			WithHint("let it answer before it does its work").WithCause(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault.New(fault.Unavailable, CodeUnreachable, "the webhook on %s refuses connections", host).WithHint("check the host and the port of webhook-url").WithCause(err)
	}
	return f.WithHint("check webhook-url, and the certificate of its host")
}

// Sign returns the header Webhook-Signature: "v1,…" for each secret, over id, timestamp and body.
func Sign(secrets [][]byte, id, timestamp string, body []byte) string {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// Secrets are of 24 to 64 bytes, says the specification.
const (
	minSecret = 24
	maxSecret = 64
)

// ReadSecrets reads a file of secrets, one a line: whsec_ and then base64.
func ReadSecrets(file string) ([][]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.New(fault.Environment, CodeAddress, "the secret in %s cannot be read", file).WithHint("check that it exists and may be read").WithCause(err)
	}
	var secrets [][]byte
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		encoded, ok := strings.CutPrefix(line, "whsec_")
		secret, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(secret) < minSecret || len(secret) > maxSecret {
			return nil, fault.New(fault.Invalid, CodeAddress, "line %d of %s is no secret of a webhook", len(secrets)+1, file).
				WithHint(`make one with: echo "whsec_$(openssl rand -base64 32)"`)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, fault.New(fault.Invalid, CodeAddress, "%s has no secret", file).WithHint(`make one with: echo "whsec_$(openssl rand -base64 32)"`)
	}
	return secrets, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

func isLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// special are addresses that no public host has, beside those that netip knows: shared, protocol and test networks, and the
// ways to IPv4 through IPv6.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("2001:db8::/32"),
}

// public reports whether an address, with its port, is one of the public network.
func public(address string) bool {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return false
	}
	ip := at.Addr().Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}
