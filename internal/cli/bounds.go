package cli

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/runlot/runlot/internal/daemon"
	"github.com/runlot/runlot/internal/daemon/caps"
)

// bounds are the flags that bound databases.
type bounds struct {
	operations, sizes []string
	d1                string
}

func (b *bounds) define(f *pflag.FlagSet) {
	f.StringArrayVar(&b.operations, "queue-ops-cap", nil, "`N` operations a day, beyond which sends fail;\nNAME=N for one database of several; off\n(default 1000000 with runlot.json, off else)")
	f.StringArrayVar(&b.sizes, "database-size-cap", nil, "size `N` of a database, like 10GB, beyond which\nsends fail; NAME=N for one of several")
	f.StringVar(&b.d1, "d1-size-cap", "", "size `N` of each D1 database, like 2GB, beyond\nwhich writes fail (default 10GiB)")
}

func (b *bounds) read(o *daemon.Options) error { return b.set(&o.Caps) }

func (b *bounds) set(s *caps.Settings) error {
	return errors.Join(s.Set(b.operations, b.sizes), s.SetD1(b.d1))
}
