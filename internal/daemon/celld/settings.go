package celld

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/caps"
	"github.com/runlot/runlot/internal/daemon/celld/notices"
	"github.com/runlot/runlot/internal/daemon/r2"
)

// Settings are what an operator chooses. Their names and meanings are in package cli, which reads them.
type Settings struct {
	// Data is the folder of everything that lasts.
	Data string
	// Listen is the public address, and Operator that of the API.
	Listen   string
	Operator string
	// PublicURL is where the public reaches an app, with {app} for its name; "" is http://{app}.localhost with the port of Listen.
	PublicURL string
	// DatabaseURLs are PostgreSQL servers of the operator's own by database name; "" stands for any database.
	DatabaseURLs map[string]string
	// Caps bound the databases.
	Caps caps.Settings
	// R2URL is the S3 store of R2 buckets, "" for the data folder, and R2Credentials the file of its keys, "" for the environment.
	R2URL, R2Credentials string
	// ParkAfter is how long an app has nothing to do before it is parked; 0 never parks.
	ParkAfter time.Duration
	// Notices are how operators are told of what goes wrong.
	Notices notices.Settings
	// AllowPrivate lets Workers reach private addresses too.
	AllowPrivate bool
	// TraceEndpoint is the collector that spans are sent to, "" for none; TraceShare is the part of the traces that are kept,
	// from 0 to 1.
	TraceEndpoint string
	TraceShare    float64
	// Version is that of the program.
	Version string
	Log     *slog.Logger
	// Ready is told how to use what runs, once it does.
	Ready func(Ready)
}

// store is where R2 buckets are; nil is the data folder.
func (s *Settings) store() (*r2.Store, error) {
	if s.R2URL != "" {
		return r2.ReadStore(s.R2URL, s.R2Credentials)
	}
	if s.R2Credentials != "" {
		return nil, fault.New(fault.Invalid, "r2_credentials", "--r2-credentials is for an S3 store").WithHint("name that with --r2-url")
	}
	return nil, nil //nolint:nilnil // the data folder is no store of its own
}

// Ready is how to use what runs.
type Ready struct {
	// Public and Operator are the addresses, as URLs; Apps is the pattern of the apps' addresses.
	Public, Operator, Apps string
	// TokenFile is set on the first start: it holds the token of the first admin.
	TokenFile string
	// Running is how many apps were brought back.
	Running int
}

// DefaultParkAfter is how long an app is idle before it is parked.
const DefaultParkAfter = 15 * time.Minute

// pattern is where the public reaches apps.
type pattern struct {
	scheme, before, after string // of the host name, around the name of the app
	port                  string // with its colon; "" is that of the scheme
}

// plain is the scheme of addresses without TLS.
const plain = "http"

// placeholder stands for the name of an app.
const placeholder = "{app}"

func parsePattern(text string, listen net.Addr) (pattern, error) {
	if text == "" {
		tcp, ok := listen.(*net.TCPAddr)
		if !ok {
			return pattern{scheme: plain, after: ".localhost"}, nil
		}
		return pattern{scheme: plain, after: ".localhost", port: fmt.Sprintf(":%d", tcp.Port)}, nil
	}
	wrong := fault.New(fault.Invalid, "public_url", "%q is no address of apps", text).
		WithHint("it looks like https://%s.example.com", placeholder)
	// No name has this letter, so that the address can be parsed with it in place of a name.
	const mark = "app-0-name"
	u, err := url.Parse(strings.Replace(text, placeholder, mark, 1))
	if err != nil || u.Scheme != plain && u.Scheme != "https" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return pattern{}, wrong
	}
	before, after, ok := strings.Cut(strings.ToLower(u.Hostname()), mark)
	if !ok || after != "" && !strings.HasPrefix(after, ".") && !strings.HasPrefix(after, "-") {
		return pattern{}, wrong
	}
	p := pattern{scheme: u.Scheme, before: before, after: after}
	if u.Port() != "" {
		p.port = ":" + u.Port()
	}
	return p, nil
}

// url is the address of an app.
func (p pattern) url(appName string) string {
	return p.scheme + "://" + p.before + appName + p.after + p.port
}

// subdomain is what makes the address of an app of what wrangler prints, which is https://APP.SUBDOMAIN.workers.dev: the end of
// that becomes a query. It has no other way to be told where apps are.
func (p pattern) subdomain() string {
	if p.before != "" || !strings.HasPrefix(p.after, ".") {
		return "local"
	}
	return strings.TrimPrefix(p.after, ".") + p.port + "/?"
}

// app is the name of the app that a Host header names; "" for none.
func (p pattern) app(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	rest, ok := strings.CutPrefix(host, p.before)
	if !ok {
		return ""
	}
	name, ok := strings.CutSuffix(rest, p.after)
	if !ok || strings.Contains(name, ".") {
		return ""
	}
	return name
}
