package d1

// Dump is what is written of a database as SQL.
type Dump struct {
	// NoSchema leaves out what makes tables, indexes, triggers and views, NoData the rows.
	NoSchema, NoData bool
	// Tables are those that are written; all of them when there are none.
	Tables []string
}
