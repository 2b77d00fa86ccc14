package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/install"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/serverlog"
)

// initialize makes the data folder with initdb. It is made under another name and renamed when it is complete and on
// disk (initdb syncs every file), so that a crash in between leaves nothing that looks like data.
func (c *Cluster) initialize(ctx context.Context) error {
	c.progress("Creating the database cluster (once)")
	fresh := c.dataDir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return unusable(c.dir, err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return unusable(c.dir, err)
	}
	if err := c.account.Give(fresh); err != nil {
		return unusable(c.dir, err)
	}
	if err := c.runInitdb(ctx, fresh); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if err := appendInclude(filepath.Join(fresh, "postgresql.conf")); err != nil {
		return unusable(fresh, err)
	}
	if err := c.writeConf(fresh); err != nil {
		return unusable(fresh, err)
	}
	// An empty folder may stand in the place.
	if err := os.Remove(c.dataDir); err != nil && !os.IsNotExist(err) {
		return unusable(c.dir, err)
	}
	if err := syncFolder(fresh); err != nil {
		return unusable(fresh, err)
	}
	if err := os.Rename(fresh, c.dataDir); err != nil {
		return unusable(c.dir, err)
	}
	return syncFolder(c.dir)
}

func (c *Cluster) runInitdb(ctx context.Context, data string) error {
	// A pipe would serve too, but initdb opens its password file by name, and /dev/fd belongs to another user as root.
	password := filepath.Join(c.runDir, "password")
	if err := os.Remove(password); err != nil && !os.IsNotExist(err) {
		return unusable(c.runDir, err)
	}
	defer os.Remove(password)
	if err := os.WriteFile(password, []byte(c.credentials.Admin+"\n"), 0o600); err != nil {
		return unusable(c.runDir, err)
	}
	if err := c.account.Give(password); err != nil {
		return unusable(c.runDir, err)
	}
	log := serverlog.New(c.log, nil)
	cmd := c.command(ctx, install.InitProgram,
		"--username="+adminUser, "--pwfile="+password, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--data-checksums",
		"--no-instructions")
	argument, folder, err := c.enterData(cmd, data)
	if err != nil {
		return err
	}
	defer folder.Close()
	cmd.Args = append(cmd.Args, "--pgdata="+argument)
	cmd.Stdout = log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	initdb, err := launch(cmd, log)
	if err != nil {
		return c.build.Broken(err, "initdb does not start: %v", err)
	}
	if initdb.Err() != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("initdb: %w", ctx.Err())
		}
		return c.explain("initdb did not make the data folder", initdb)
	}
	return nil
}

func appendInclude(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("\n" + includeLine + "\n")
	return errors.Join(err, file.Sync(), file.Close())
}

func syncFolder(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
