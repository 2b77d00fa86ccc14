package postgres

import (
	"context"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// sessionName is the application_name of the sessions of an ownership; idle is that of every other session of a store.
const sessionName = "runlot/"

const idleName = "runlot"

// parse reads a connection string into the settings that every session of the store has.
func parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fault.New(fault.Environment, CodeDatabaseURL, "the database URL cannot be read").
			WithHint("write it as postgres://user:password@host:port/database, or as key=value pairs").WithCause(err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = queue.StoreConnectTime
	}
	config.DialFunc = (&net.Dialer{Timeout: config.ConnectTimeout, KeepAlive: queue.StorePingEvery}).DialContext
	const off = "off"
	seconds := strconv.Itoa(int(queue.StorePingTime / time.Second))
	maps.Copy(config.RuntimeParams, map[string]string{
		"application_name": idleName,
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

// connect opens one session under the given name.
func connect(ctx context.Context, base *pgx.ConnConfig, name string) (*pgx.Conn, error) {
	config := base.Copy()
	config.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, classify(err)
	}
	return conn, nil
}

// closeNow ends a session, also after ctx has ended. It waits for the socket to close, but not for a network that is gone.
func closeNow(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}
