package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/core/span"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/runlot/runlot/internal/cli/setting"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon/celld"
)

// settings are those of the daemon, as they are given: each as a flag, in the environment or in a file.
type settings struct {
	celld.Settings
	set           *setting.Set
	urls          []string
	capped        bounds
	config, level string
}

// Define implements instance.Settings.
func (s *settings) Define(f *pflag.FlagSet) {
	f.StringVar(&s.Data, "data", "", "`FOLDER` of everything that lasts (required)")
	f.StringVar(&s.Listen, "listen", "127.0.0.1:8787", "`ADDRESS` for the public, all apps by host name\n")
	f.StringVar(&s.Operator, "operator", "127.0.0.1:8788", "`ADDRESS` for operators: the page and the API\n")
	f.StringVar(&s.PublicURL, "public-url", "", "`URL` at which the public reaches an app, with\n{app} for its name (default\nhttp://{app}.localhost:PORT)")
	f.StringArrayVar(&s.urls, "database-url", nil, "`URL` of a PostgreSQL of your own; NAME=URL\nfor one database of several")
	s.capped.define(f)
	f.StringVar(&s.R2URL, "r2-url", "", "`URL` of an S3 store for R2 buckets:\ns3://BUCKET/PREFIX?endpoint=URL&region=NAME\n(default: the data folder)")
	f.StringVar(&s.R2Credentials, "r2-credentials", "", "`FILE` with its keys, like AWS's credentials\nfile (default: AWS's environment variables)")
	f.DurationVar(&s.ParkAfter, "park-after", celld.DefaultParkAfter, "`TIME` without work after which an app is\nparked; 0 is never")
	f.BoolVar(&s.AllowPrivate, "allow-private", false, "let Workers reach private addresses too")
	f.StringVar(&s.TraceEndpoint, "trace-endpoint", "", "`URL` of an OpenTelemetry collector (OTLP over\nHTTP) that gets traces, like\nhttp://127.0.0.1:4318")
	f.Float64Var(&s.TraceShare, "trace-share", 1, "`SHARE` of the traces that are kept, 0 to 1\n")
	defineNotifications(f, &s.Notices)
	f.StringVar(&s.level, "log-level", "info", "`LEVEL` of the log: debug, info, warn or error\n")
	s.set = setting.New("CELLD_", f)
	s.set.Add("data", "listen", "operator", "public-url", "database-url", "queue-ops-cap", "database-size-cap", "d1-size-cap", "r2-url", "r2-credentials", "park-after", "allow-private", "trace-endpoint",
		"trace-share", "log-level")
	s.set.Add(notificationSettings...)
	f.StringVarP(&s.config, "config", "c", "", "`FILE` of settings, in TOML")
}

// Read implements instance.Settings.
func (s *settings) Read(c *cobra.Command) (*celld.Settings, error) {
	if err := guardPassword(c, &s.Notices); err != nil {
		return nil, err
	}
	if err := s.set.Read(os.Environ(), s.config); err != nil {
		return nil, err
	}
	if s.Data == "" && c.Flags().Lookup("data") != nil {
		return nil, command.Usage("%s needs --data, the folder of everything that lasts", c.CommandPath())
	}
	if s.ParkAfter < 0 {
		return nil, command.Usage("--park-after takes a time of 0 or more, not %s", span.Text(s.ParkAfter))
	}
	if s.TraceShare < 0 || s.TraceShare > 1 {
		return nil, command.Usage("--trace-share takes a number from 0 to 1, not %g", s.TraceShare)
	}
	var err error
	if s.DatabaseURLs, err = databaseURLs(s.urls); err != nil {
		return nil, err
	}
	if err = s.capped.set(&s.Caps); err != nil {
		return nil, err
	}
	if s.Log, err = daemonLog(command.Stderr(c), s.level); err != nil {
		return nil, err
	}
	return &s.Settings, nil
}

// celldCommand is the daemon itself, with the commands about it.
func celldCommand(version string) (*cobra.Command, *setting.Set) {
	given := &settings{Settings: celld.Settings{Version: version}}
	c := &cobra.Command{
		Use:   "celld",
		Short: "Run deployed Workers apps with their queues for good",
		Long: `celld keeps the apps running that "runlot deploy" gives it: their requests on a
public address, by host name; their queues from PostgreSQL; and an API for
"runlot" on an operator address. Apps without work are parked and wake when a
request or a message comes.

A first SIGTERM stops it cleanly: nothing more is taken, what is in flight
finishes within 30 seconds, and the rest is delivered again by the next start. A
second one ends it at once.

Each setting is a flag, an environment variable (CELLD_LISTEN) or a line of the
TOML file that --config names (listen = ":8787"), in that order.`,
		Example: `  celld --data /var/lib/celld
  celld --data /var/lib/celld --listen :80 --public-url http://{app}.example.com

  # a PostgreSQL of your own, 15 or newer
  celld --data /var/lib/celld --database-url postgres://me@db/mine`,
	}
	given.Define(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 || c.Flags().NFlag() == 0 && os.Getenv(given.set.Variable("data")) == "" {
			return command.HelpOrUnknown(c, args)
		}
		s, err := given.Read(c)
		if err != nil {
			return err
		}
		s.Ready = func(r celld.Ready) { sayReady(command.Stdout(c), s.Log, r) }
		return celld.Run(c.Context(), s)
	}
	command.Must(c.MarkFlagDirname("data"))
	command.Must(c.MarkFlagFilename("config", "toml"))
	command.Must(c.MarkFlagFilename("r2-credentials"))
	return c, given.set
}

// daemonLog is the daemon's one log: text on a terminal, JSON elsewhere.
func daemonLog(stderr *os.File, level string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, command.Usage("--log-level takes debug, info, warn or error, not %q", level)
	}
	options.Level = l
	if terminal.New(stderr).Interactive {
		return slog.New(slog.NewTextHandler(stderr, options)), nil
	}
	return slog.New(slog.NewJSONHandler(stderr, options)), nil
}

// sayReady tells a person how to go on, and the log that the start is over.
func sayReady(stdout *os.File, log *slog.Logger, r celld.Ready) {
	log.Info("ready", "public", r.Public, "operator", r.Operator, "apps", r.Apps, "running", r.Running)
	out := terminal.New(stdout)
	_, _ = io.WriteString(stdout, fmt.Sprintf("%s\n  public    %s\n  operator  %s\n  apps      %s\n",
		out.Paint(terminal.Bold, "celld is ready"), r.Public, r.Operator, r.Apps))
	if r.TokenFile != "" {
		_, _ = fmt.Fprintf(stdout, "\nLog in with the first admin's token, and make others of it:\n  runlot login %s --token-file %s\n", r.Operator, r.TokenFile)
	}
}
