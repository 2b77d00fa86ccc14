package command

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// address matches what may be the address of a database, with mistakes in it, and so hold a password.
var address = regexp.MustCompile(`(?i)postgres(ql)?:|:/|@|password`)

// quoted shows what was given, unless it may hold a password.
func quoted(given string) string {
	if address.MatchString(given) {
		return "an address"
	}
	return strconv.Quote(given)
}

// databaseAddress matches the address of a database, with mistakes in it.
var databaseAddress = regexp.MustCompile(`(?i)postgres(ql)?:|password *=`)

// Misplaced refuses the address of a database where another value belongs: in the error that would follow it could be
// read, password and all.
func Misplaced(c *cobra.Command, given []string) error {
	if slices.ContainsFunc(given, databaseAddress.MatchString) {
		return Usage("%s takes no address of a database; give it with --database-url", c.CommandPath())
	}
	var err error
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && databaseAddress.MatchString(f.Value.String()) {
			err = Usage("--%s takes no address of a database; give it with --database-url", f.Name)
		}
	})
	return err
}
