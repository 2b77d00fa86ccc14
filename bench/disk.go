package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/runlot/runlot/bench/measure"
)

// disk is how often one writer can make 8 KiB durable: what a commit costs at least, and what explains a low rate of
// single sends on a slow or busy disk.
type disk struct{ file *os.File }

const (
	diskPage  = 8 << 10
	diskPages = 2_048
)

func (b *bench) openDisk(context.Context) (subject, error) {
	file, err := os.Create(filepath.Join(b.tmp, "disk"))
	if err != nil {
		return nil, err
	}
	// As with PostgreSQL's log, the file has its size before it is used.
	_, err = file.Write(make([]byte, diskPage*diskPages))
	if err == nil {
		err = file.Sync()
	}
	return &disk{file: file}, err
}

// Close implements subject.
func (d *disk) Close(context.Context) error { return d.file.Close() }

// Measure implements subject.
func (d *disk) Measure(ctx context.Context, w measure.Window) (measure.Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var synced atomic.Int64
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		page := make([]byte, diskPage)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n := synced.Load()
			_, err := d.file.WriteAt(page, n%diskPages*diskPage)
			if err = errors.Join(err, dataSync(d.file)); err != nil {
				cancel(err)
				return
			}
			synced.Add(1)
		}
	})
	sample, err := w.Count(ctx, synced.Load)
	close(stop)
	writing.Wait()
	sample.PerCPU = 0
	return sample, err
}
