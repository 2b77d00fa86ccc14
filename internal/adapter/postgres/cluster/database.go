package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/core/fault"
)

// Role is a way into the server.
type Role struct {
	User     string
	Password string
}

// Access is one database with its two roles. The owner is the product's: it owns the database and what it makes there,
// is no superuser, and may end its own sessions. The app role is for the apps' own statements (env.DATABASE): it owns
// the schema public, may make schemas and trusted extensions, and enters no other database.
type Access struct {
	Database string
	Owner    Role
	App      Role
	// SocketDir and Port say where the server listens.
	SocketDir string
	Port      int
}

// OwnerURL returns the address for the product's own sessions.
func (a Access) OwnerURL() string { return address(a.SocketDir, a.Port, a.Database, a.Owner) }

// AppURL returns the address for the apps' own statements.
func (a Access) AppURL() string { return address(a.SocketDir, a.Port, a.Database, a.App) }

func address(dir string, port int, database string, role Role) string {
	query := url.Values{"host": {dir}, "port": {strconv.Itoa(port)}, "sslmode": {"disable"}}.Encode()
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(role.User, role.Password), Path: "/" + database,
		RawQuery: strings.ReplaceAll(query, "+", "%20"), // PostgreSQL takes a plus for a plus
	}
	return u.String()
}

func (c *Cluster) url(database string, role Role) string {
	return address(c.runDir, port, database, role)
}

const nameRule = "a database name has 1 to 63 characters of letters, digits, dash and underscore, starts with a letter or digit, and is none of postgres, template0 and template1"

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

// roleName returns a role's name for a database, within PostgreSQL's 63 bytes.
func roleName(prefix, database string) string {
	name := prefix + database
	if len(name) > 63 {
		hash := shortHash(database)
		name = name[:63-len(hash)-1] + "_" + hash
	}
	return name
}

// Knows reports whether EnsureDatabase has made a database of that name before.
func (c *Cluster) Knows(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.credentials.Databases[name].Ready
}

// EnsureDatabase makes the database of that name and its roles, when they are missing, and returns the way in. What
// the user changed in a complete database stays as it is. Several calls at a time are fine.
func (c *Cluster) EnsureDatabase(ctx context.Context, name string) (Access, error) {
	if !namePattern.MatchString(name) || name == adminDatabase || name == "template0" || name == "template1" {
		return Access{}, fault.New(fault.Invalid, "database_name", "%q cannot be the name of a database: %s", name, nameRule)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	passwords, known := c.credentials.Databases[name]
	if !known {
		passwords = databasePassword{Owner: newPassword(), App: newPassword()}
		if err := c.remember(name, passwords); err != nil {
			return Access{}, err
		}
	}
	access := accessTo(name, passwords, c.runDir, port)
	admin, err := c.Admin(ctx)
	if err != nil {
		return Access{}, err
	}
	defer closeConn(ctx, admin)
	var complete bool
	err = admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1) AND (SELECT count(*) = 2 FROM pg_roles WHERE rolname IN ($2, $3))`,
		name, access.Owner.User, access.App.User).Scan(&complete)
	if err != nil {
		return Access{}, fmt.Errorf("look for database %s: %w", name, err)
	}
	if complete && passwords.Ready {
		return access, c.checkOwner(ctx, &access)
	}
	if err := c.makeDatabase(ctx, admin, &access); err != nil {
		return Access{}, fmt.Errorf("make database %s: %w", name, err)
	}
	passwords.Ready = true
	return access, c.remember(name, passwords)
}

// checkOwner tells a password of the owner that is not the server's for what it is: who opens the database later takes
// its address for one that a person wrote.
func (c *Cluster) checkOwner(ctx context.Context, access *Access) error {
	conn, err := pgx.Connect(ctx, access.OwnerURL())
	switch {
	case refused(err):
		return fault.New(fault.Environment, "credentials", "the PostgreSQL in %s refuses the password that %s has for %s of database %s",
			c.dir, c.credentials.path, access.Owner.User, access.Database).
			WithHint("restore that file from a backup, or remove the part %q from its \"databases\": the database then gets new passwords", access.Database).
			WithCause(err)
	case err == nil:
		closeConn(ctx, conn)
	}
	return nil // all else is told better by who uses the database
}

// refused reports that the server did not accept a password.
func refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "28P01"
}

func (c *Cluster) remember(name string, passwords databasePassword) error {
	c.credentials.Databases[name] = passwords
	if err := c.credentials.save(); err != nil {
		return unusable(c.dir, err)
	}
	return nil
}

// makeDatabase makes what is missing of a database. Each step can be repeated after a crash.
func (c *Cluster) makeDatabase(ctx context.Context, admin *pgx.Conn, access *Access) error {
	for _, role := range []Role{access.Owner, access.App} {
		if err := ensureRole(ctx, admin, role); err != nil {
			return fmt.Errorf("role %s: %w", role.User, err)
		}
	}
	database, owner, app := quote(access.Database), quote(access.Owner.User), quote(access.App.User)
	if _, err := admin.Exec(ctx, "GRANT pg_use_reserved_connections TO "+owner); err != nil {
		return err
	}
	var exists bool
	if err := admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, access.Database).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		// Not from template1, which an operator may have changed.
		if _, err := admin.Exec(ctx, "CREATE DATABASE "+database+" OWNER "+owner+" TEMPLATE template0"); err != nil {
			return err
		}
	}
	inside, err := c.connect(ctx, access.Database)
	if err != nil {
		return err
	}
	defer closeConn(ctx, inside)
	_, err = inside.Exec(ctx, `
		REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;
		REVOKE ALL ON DATABASE `+database+` FROM PUBLIC;
		GRANT CONNECT, CREATE, TEMPORARY ON DATABASE `+database+` TO `+app+`;
		CREATE SCHEMA IF NOT EXISTS public;
		ALTER SCHEMA public OWNER TO `+app+`;
		GRANT ALL ON SCHEMA public TO `+owner)
	return err
}

func ensureRole(ctx context.Context, admin *pgx.Conn, role Role) error {
	secret, err := verifier(role.Password)
	if err != nil {
		return err
	}
	var exists bool
	if err := admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, role.User).Scan(&exists); err != nil {
		return err
	}
	verb := "CREATE"
	if exists {
		verb = "ALTER"
	}
	_, err = admin.Exec(ctx, verb+" ROLE "+quote(role.User)+" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD '"+secret+"'")
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// closeConn ends a session also when ctx is over.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	_ = conn.Close(context.WithoutCancel(ctx))
}
