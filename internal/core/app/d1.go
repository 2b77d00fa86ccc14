package app

// D1Database is a binding in env to a D1 database, which is a SQLite file.
type D1Database struct {
	Binding string `json:"binding"`
	// Name is what people call the database. It is never "".
	Name string `json:"name"`
	// ID is the identity that the configuration gives the database; "" when its name is its identity.
	ID string `json:"id,omitempty"`
	// MigrationsDir is the folder of its migrations, slash-separated and relative to the project folder; MigrationsTable is
	// the table in which the database holds which of them are applied.
	MigrationsDir   string `json:"migrationsDir"`
	MigrationsTable string `json:"migrationsTable"`
}

// Defaults of D1 databases, which are wrangler's.
const (
	DefaultMigrationsDir   = "migrations"
	DefaultMigrationsTable = "d1_migrations"
)

// Identity says which database it is: bindings of one identity share it, in one app and across apps.
func (d *D1Database) Identity() string {
	if d.ID != "" {
		return d.ID
	}
	return d.Name
}
