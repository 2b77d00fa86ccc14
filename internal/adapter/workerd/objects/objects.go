// Package objects is what the Durable Objects of an app have stored: a folder with one folder for each class, which workerd
// fills with one SQLite file for each object. One process has it at a time.
package objects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

const (
	// lockName is the file in an app's folder that the process which has the folder holds locked.
	lockName = "lock"
	// lockEvery is the rhythm at which a lock that somebody has is tried again.
	lockEvery = 20 * time.Millisecond
)

// UniqueKey is the name of a class's folder, and what workerd derives the ids of its objects from.
func UniqueKey(appName, key string) string { return appName + "-" + key }

// Take makes the folder of an app where it is missing and locks it. The file that is returned is the lock: it is passed to
// the process, and ends with the last process that has it, however that ends. A folder that somebody has is waited for, for
// at most queue.ObjectsLockTime.
func Take(ctx context.Context, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unusable(dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unusable(dir, err)
	}
	patience, cancel := context.WithTimeout(ctx, queue.ObjectsLockTime)
	defer cancel()
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(unusable(dir, err), lock.Close())
		}
		select {
		case <-tick.C:
		case <-patience.Done():
			_ = lock.Close()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fault.New(fault.Conflict, "objects_in_use", "another process has the Durable Objects in %s", dir).
				WithHint("it is the worker process of an earlier start; end it, and the app starts by itself")
		}
	}
}

// Remove deletes what classes have stored, by their keys. What is not there is fine. A process that has the folder must not
// know the classes.
func Remove(dir, appName string, keys []string) error {
	for _, key := range keys {
		if err := os.RemoveAll(filepath.Join(dir, UniqueKey(appName, key))); err != nil {
			return fmt.Errorf("delete Durable Objects: %w", err)
		}
	}
	return nil
}

// Check refuses code that lacks a class of the manifest.
func Check(m *app.Manifest, handlers *app.Handlers, file string) error {
	if m.DurableObjects == nil {
		return nil
	}
	for _, c := range m.DurableObjects.Classes {
		switch handlers.Exports[c.Class].Kind {
		case "DurableObject", "class":
		default:
			return fault.New(fault.Invalid, "object_class_not_exported", "%s has a class %s of Durable Objects, but %s exports none", m.Name, c.Class, m.Main).
				WithHint("add `export class %s extends DurableObject { … }`, or delete the class by a migration in %s", c.Class, file)
		}
	}
	return nil
}

func unusable(dir string, err error) error {
	return fault.New(fault.Environment, "objects_folder", "the folder %s of Durable Objects cannot be used: %s", dir, err).
		WithHint("look at the rights of the state folder").WithCause(err)
}
