package cluster

import (
	"errors"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/core/fault"
)

// Locate returns the access to a database of a cluster that another process runs in the state folder dir. It fails with
// a fault of kind Unavailable when no server runs there, and NotFound when the server has no such database.
func Locate(dir, name string) (Access, error) {
	c, socketDir, number, err := listening(dir)
	if err != nil {
		return Access{}, err
	}
	passwords, known := c.Databases[name]
	if !known {
		return Access{}, fault.New(fault.NotFound, "database_unknown", "the PostgreSQL in %s has no database %q", dir, name).
			WithHint("it is made when a project that names it runs")
	}
	return accessTo(name, passwords, socketDir, number), nil
}

// Replication returns the settings of a replication session of the administrator, with the cluster that a process runs in
// the state folder dir. It fails like Locate.
func Replication(dir string) (*pgconn.Config, error) {
	c, socketDir, number, err := listening(dir)
	if err != nil {
		return nil, err
	}
	config, err := pgconn.ParseConfig(address(socketDir, number, adminDatabase, Role{User: adminUser, Password: c.Admin}))
	if err != nil {
		return nil, errors.New("the administrator's address cannot be read") // the parser's words may show the password
	}
	config.RuntimeParams["replication"] = "true"
	return config, nil
}

// listening reads the passwords of a cluster that runs in dir, and where it listens.
func listening(dir string) (c *credentials, socketDir string, number int, err error) {
	// The lines of the file: process, data folder, time of the start, port, folder of the socket, and more.
	lines := postmasterFile(filepath.Join(dir, "data"))
	if len(lines) == 0 {
		return nil, "", 0, fault.New(fault.Unavailable, "postgres_stopped", "no PostgreSQL runs in %s", dir).
			WithHint("it runs while the project does")
	}
	starting := fault.New(fault.Unavailable, "postgres_starting", "the PostgreSQL in %s is not up yet", dir).WithHint("try again shortly")
	if len(lines) < 5 {
		return nil, "", 0, starting
	}
	if number, err = strconv.Atoi(lines[3]); err != nil {
		return nil, "", 0, starting.WithCause(err)
	}
	if c, err = loadCredentials(dir, true); err != nil {
		return nil, "", 0, err
	}
	return c, lines[4], number, nil
}

// accessTo puts together what is known of a database and of where its server listens.
func accessTo(name string, passwords databasePassword, socketDir string, port int) Access {
	return Access{
		Database: name, SocketDir: socketDir, Port: port,
		Owner: Role{User: roleName("owner_", name), Password: passwords.Owner},
		App:   Role{User: roleName("app_", name), Password: passwords.App},
	}
}
