package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
)

// FuzzParse takes any database URL. It is refused with a fault that does not show the password, not even to the log, or
// has the settings that every session needs.
func FuzzParse(f *testing.F) {
	const password = "Tr0ub4dor"
	f.Add("postgres://me:", "@localhost:5432/mine")
	f.Add("postgres://me:", "@[::1/mine")
	f.Add("postgres://me:a b", "@localhost:port/mine?sslmode=what")
	f.Add("user=me password=", " host='/tmp")
	f.Add("password='", "' port=99999999")
	f.Add("postgres://%zz:", "@host")
	f.Fuzz(func(t *testing.T, before, after string) {
		// Files that the environment or the URL may name are not read.
		for _, key := range []string{"PGSERVICE", "PGSERVICEFILE", "PGPASSFILE", "PGSSLROOTCERT"} {
			t.Setenv(key, "")
		}
		if text := strings.ToLower(before + after); strings.Contains(text, "service") || strings.Contains(text, "file") || strings.Contains(text, "ssl") {
			return
		}
		config, err := session.Parse(before + password + after)
		if err != nil {
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != session.CodeDatabaseURL || f.Hint == "" {
				t.Fatalf("refused with %#v", err)
			}
			if strings.Contains(fault.Detail(err), password) {
				t.Fatalf("shows the password: %s", fault.Detail(err))
			}
			return
		}
		if config.RuntimeParams["statement_timeout"] != "0" || config.ConnectTimeout == 0 || config.DialFunc == nil {
			t.Errorf("accepted without our settings: %v", config.RuntimeParams)
		}
	})
}
