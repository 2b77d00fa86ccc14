package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon"
)

// FuzzDatabaseURLs gives --database-url twice. It is refused with a fault that shows no password, or each database has the
// address that was given for it.
func FuzzDatabaseURLs(f *testing.F) {
	const password = "Tr0ub4dor"
	f.Add("postgres://me:", "@localhost/mine", "shop=postgres://localhost/shop")
	f.Add("shop=postgres://me:", "@localhost/mine", "shop=postgres://x")
	f.Add("host=db user=me password=", "", "=postgresql://x")
	f.Add("postgre://me:", "@localhost/mine", "")
	f.Fuzz(func(t *testing.T, before, after, second string) {
		o := &daemon.Options{}
		err := readURLs(o, []string{before + password + after, second})
		if err != nil {
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Kind != fault.Invalid || f.Hint == "" {
				t.Fatalf("refused with %#v", err)
			}
			if strings.Contains(err.Error(), password) {
				t.Errorf("shows the password: %s", err)
			}
			return
		}
		if len(o.DatabaseURLs) != 2 {
			t.Errorf("two addresses made %d", len(o.DatabaseURLs))
		}
		for name, url := range o.DatabaseURLs {
			given := url
			if name != "" {
				given = name + "=" + url
			}
			if !strings.HasPrefix(url, "postgres") || given != before+password+after && given != second && "="+given != second && "="+given != before+password+after {
				t.Errorf("database %q has the address %q", name, url)
			}
		}
	})
}
