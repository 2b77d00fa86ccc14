// Package objects copies what Durable Objects have stored, while the processes that have it go on. A folder holds one folder
// for each app, that one for each class, and that one SQLite file for each object beside one with the alarms of all of them.
package objects

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite"
)

const (
	extension = ".sqlite"
	// alarmsFile and alarmsTable are workerd's: when which object is to be woken.
	alarmsFile  = "metadata" + extension
	alarmsTable = "_cf_ALARM"
)

// Backup copies each file, as it is at one moment between two transactions, to a file in scratch, hands that to each with
// the name that it has below dir, and removes it again. A missing folder has none.
//
// An alarm is stored twice, with the object and with the alarms of the class. The alarms of a copy are those from before and
// those from behind the copies of the objects, so that none is lost that a copied object waits for; one that fired meanwhile
// fires once more.
func Backup(ctx context.Context, dir, scratch string, each func(name, path string) error) error {
	apps, err := folders(dir)
	if err != nil {
		return err
	}
	for _, app := range apps {
		classes, err := folders(filepath.Join(dir, app))
		if err != nil {
			return err
		}
		for _, class := range classes {
			if err := backupClass(ctx, filepath.Join(dir, app, class), path.Join(app, class), scratch, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// folders are the names of the folders in a folder.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func backupClass(ctx context.Context, dir, name, scratch string, each func(name, path string) error) error {
	before := filepath.Join(scratch, "before"+extension)
	hadAlarms, err := one(ctx, filepath.Join(dir, alarmsFile), before)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	copied := filepath.Join(scratch, "object"+extension)
	give := func(file string) error {
		return errors.Join(each(path.Join(name, file), copied), os.Remove(copied))
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), extension) || e.Name() == alarmsFile {
			continue
		}
		there, err := one(ctx, filepath.Join(dir, e.Name()), copied)
		if err != nil {
			return err
		}
		if !there {
			continue // deleted meanwhile
		}
		if err := give(e.Name()); err != nil {
			return err
		}
	}
	there, err := one(ctx, filepath.Join(dir, alarmsFile), copied)
	if err != nil || !there {
		return err
	}
	if hadAlarms {
		if err := errors.Join(merge(copied, before), os.Remove(before)); err != nil {
			return err
		}
	}
	return give(alarmsFile)
}

// one copies a file, and reports whether it is there.
func one(ctx context.Context, source, target string) (bool, error) {
	if _, err := os.Lstat(source); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return true, sqlite.Copy(ctx, "the Durable Object "+filepath.Base(source), source, target)
}

// merge adds the alarms of a file that another one lacks to that.
func merge(into, from string) (err error) {
	c, err := sqlite3.OpenFlags(into, sqlite3.OPEN_READWRITE|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Exec("ATTACH " + sqlite3.Quote(from) + " AS earlier"); err != nil {
		return err
	}
	tables := 0
	s, _, err := c.Prepare("SELECT 1 FROM main.sqlite_schema WHERE name = '" + alarmsTable + "' UNION ALL SELECT 1 FROM earlier.sqlite_schema WHERE name = '" + alarmsTable + "'")
	if err != nil {
		return err
	}
	for s.Step() {
		tables++
	}
	if err := s.Close(); err != nil || tables < 2 { // in both files
		return err
	}
	return c.Exec("INSERT OR IGNORE INTO main." + alarmsTable + " SELECT * FROM earlier." + alarmsTable) //nolint:unqueryvet // the columns are workerd's, and the same in both
}
