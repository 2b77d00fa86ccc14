// Package session opens the sessions of a store on PostgreSQL, all with the same settings, and tells the errors of the
// server apart.
package session

import (
	"context"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// OwnerName is what the application_name of the sessions of an ownership begins with, before the epoch; IdleName is that of
// every other session.
const (
	OwnerName = "runlot/"
	IdleName  = "runlot"
)

// Parse reads a connection string, a URL or key=value pairs, into the settings that every session has. Fault: Invalid
// (CodeDatabaseURL), which never shows what was given.
func Parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil || misread(url, config) {
		// The parser's words are left out: of an address that it cannot take apart they may show the password.
		return nil, fault.New(fault.Invalid, CodeDatabaseURL, "the database address cannot be read").
			WithHint("it looks like postgres://user:password@host:5432/database; in the password, characters such as @ : / ? # %% are written as %%40 %%3A %%2F %%3F %%23 %%25")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = queue.StoreConnectTime
	}
	config.DialFunc = (&net.Dialer{Timeout: config.ConnectTimeout, KeepAlive: queue.StorePingEvery}).DialContext
	const off = "off"
	seconds := strconv.Itoa(int(queue.StorePingTime / time.Second))
	maps.Copy(config.RuntimeParams, map[string]string{
		"application_name": IdleName,
		"client_encoding":  "UTF8",
		// A role or a database may set limits for people's sessions; these would end ours in the middle of its work.
		"statement_timeout":                   "0",
		"lock_timeout":                        "0",
		"idle_session_timeout":                "0",
		"idle_in_transaction_session_timeout": "0",
		"default_transaction_isolation":       "read committed",
		// The server lets go of a client whose machine died, so that its ownership ends.
		"tcp_keepalives_idle":     seconds,
		"tcp_keepalives_interval": seconds,
		"tcp_keepalives_count":    "2",
		// Every statement has one good plan, by index from a known place. Statistics of a table that is empty one minute
		// and holds millions the next must not choose another.
		"plan_cache_mode":   "force_generic_plan",
		"jit":               off,
		"enable_seqscan":    off,
		"enable_bitmapscan": off,
		"enable_hashjoin":   off,
		"enable_mergejoin":  off,
	})
	return config, nil
}

// parameter is the name of a setting of PostgreSQL.
var parameter = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// misread reports that a part of the password was taken for something else, and would be shown as that: a character of it
// that is not written as %xx ends it. A URL has one @, behind the login.
func misread(url string, config *pgx.ConnConfig) bool {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		login, address, ok := strings.Cut(rest, "@")
		if strings.Contains(address, "@") || ok && strings.Contains(login, "/") {
			return true
		}
	}
	for name := range config.RuntimeParams {
		if !parameter.MatchString(name) {
			return true
		}
	}
	return false
}

// Open opens one session under the given application_name. Errors are those of Classify.
func Open(ctx context.Context, base *pgx.ConnConfig, name string) (*pgx.Conn, error) {
	config := base.Copy()
	config.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, Classify(err)
	}
	return conn, nil
}

// Close ends a session, also after ctx has ended. It waits for the socket to close, but not for a network that is gone.
func Close(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// Lock takes a session advisory lock. It asks again and again, until ctx ends, instead of waiting inside the server, where a
// waiting statement would keep a snapshot open and with it every dead row of the database. Fault: Unavailable when
// another node keeps it.
func Lock(ctx context.Context, conn *pgx.Conn, key int64) error {
	for {
		var got bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", key).Scan(&got); err != nil {
			return err
		}
		if got {
			return nil
		}
		if err := Pause(ctx, queue.StoreAcquireEvery); err != nil {
			return fault.New(fault.Unavailable, "database_held", "another node holds the queues of the database").
				WithHint("stop that one, or give this one a database of its own").WithCause(err)
		}
	}
}

// Pause waits for d, or returns the error of ctx when that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
