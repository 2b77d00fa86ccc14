package cluster

import (
	"path/filepath"
	"strconv"

	"github.com/runlot/runlot/internal/core/fault"
)

// Locate returns the access to a database of a cluster that another process runs in the state folder dir. It fails with
// a fault of kind Unavailable when no server runs there, and NotFound when the server has no such database.
func Locate(dir, name string) (Access, error) {
	// The lines of the file: process, data folder, time of the start, port, folder of the socket, and more.
	lines := postmasterFile(filepath.Join(dir, "data"))
	if len(lines) == 0 {
		return Access{}, fault.New(fault.Unavailable, "postgres_stopped", "no PostgreSQL runs in %s", dir).
			WithHint("it runs while the project does")
	}
	starting := fault.New(fault.Unavailable, "postgres_starting", "the PostgreSQL in %s is not up yet", dir).WithHint("try again shortly")
	if len(lines) < 5 {
		return Access{}, starting
	}
	number, err := strconv.Atoi(lines[3])
	if err != nil {
		return Access{}, starting.WithCause(err)
	}
	c, err := loadCredentials(dir, true)
	if err != nil {
		return Access{}, err
	}
	passwords, known := c.Databases[name]
	if !known {
		return Access{}, fault.New(fault.NotFound, "database_unknown", "the PostgreSQL in %s has no database %q", dir, name).
			WithHint("it is made when a project that names it runs")
	}
	return accessTo(name, passwords, lines[4], number), nil
}

// accessTo puts together what is known of a database and of where its server listens.
func accessTo(name string, passwords databasePassword, socketDir string, port int) Access {
	return Access{
		Database: name, SocketDir: socketDir, Port: port,
		Owner: Role{User: roleName("owner_", name), Password: passwords.Owner},
		App:   Role{User: roleName("app_", name), Password: passwords.App},
	}
}
