package peer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Bare is the upper bound of what any engine over this table can reach: one session copies rows in, another deletes
// them by key, in transactions as large as the engine's, and nothing else happens. No message is ever handed to
// anybody.
type Bare struct {
	in, out *pgx.Conn
	pid     int
	seq     int64
}

const (
	bareQueue  = 1
	bareDelete = "bare_delete"
)

// NewBare connects to a database that has the product's schema. pid is the server's first process.
func NewBare(ctx context.Context, url string, pid int) (*Bare, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	// The plan that the engine's own sessions are held to.
	maps.Copy(config.RuntimeParams, map[string]string{
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off",
	})
	b := &Bare{pid: pid, seq: store.SeqAt(time.Now())}
	if b.in, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	if b.out, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, errors.Join(err, b.in.Close(ctx))
	}
	_, err = b.out.Prepare(ctx, bareDelete, `DELETE FROM runlot_queue.message WHERE queue_id = $1 AND seq = ANY($2::bigint[])`)
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	return b, nil
}

// Close ends the sessions.
func (b *Bare) Close(ctx context.Context) error {
	return errors.Join(b.in.Close(ctx), b.out.Close(ctx))
}

// Measure counts rows that were copied in and deleted again.
func (b *Bare) Measure(ctx context.Context, w measure.Window) (measure.Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var deleted atomic.Int64
	stop := make(chan struct{})
	// A slot each in the channel, in the hands of the copying and of the deleting session.
	groups := make(chan int64, 1)
	var sessions sync.WaitGroup
	sessions.Go(func() {
		defer close(groups)
		if err := b.copyIn(ctx, groups, stop); err != nil {
			cancel(fmt.Errorf("copy: %w", err))
		}
	})
	sessions.Go(func() {
		if err := b.deleteOut(ctx, groups, &deleted); err != nil {
			cancel(fmt.Errorf("delete: %w", err))
		}
	})
	sample, err := w.Count(ctx, deleted.Load, b.pid)
	close(stop)
	sessions.Wait()
	return sample, err
}

// copyIn commits group after group and hands each one's first Seq over.
func (b *Bare) copyIn(ctx context.Context, groups chan<- int64, stop <-chan struct{}) error {
	buf := &bytes.Buffer{}
	for {
		buf.Reset()
		b.encode(buf)
		_, err := b.in.PgConn().CopyFrom(ctx, buf,
			`COPY runlot_queue.message (seq, sent_at, queue_id, failures, losses, format, body) FROM STDIN WITH (FORMAT binary)`)
		if err != nil {
			return err
		}
		select {
		case groups <- b.seq:
		case <-ctx.Done():
			return nil
		}
		b.seq += queue.GroupRows
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

// encode writes one group in the binary format of COPY.
func (b *Bare) encode(buf *bytes.Buffer) {
	const fields = 7
	header := append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)
	buf.Write(header)
	epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	row := binary.BigEndian.AppendUint16(nil, fields)
	value := func(bits int, v int64) {
		row = binary.BigEndian.AppendUint32(row, uint32(bits/8))
		full := binary.BigEndian.AppendUint64(nil, uint64(v))
		row = append(row, full[8-bits/8:]...)
	}
	value(64, 0)
	value(64, time.Since(epoch).Microseconds())
	value(32, bareQueue)
	value(16, 0)
	value(16, 0)
	value(16, int64(queue.JSON))
	row = binary.BigEndian.AppendUint32(row, uint32(len(Body)))
	row = append(row, Body...)
	for i := range int64(queue.GroupRows) {
		binary.BigEndian.PutUint64(row[2+4:], uint64(b.seq+i))
		buf.Write(row)
	}
	buf.Write([]byte{0xff, 0xff})
}

// deleteOut deletes the groups that it is handed.
func (b *Bare) deleteOut(ctx context.Context, groups <-chan int64, deleted *atomic.Int64) error {
	seqs := make(pgtype.FlatArray[int64], queue.GroupRows)
	for first := range groups {
		for i := range seqs {
			seqs[i] = first + int64(i)
		}
		tag, err := b.out.Exec(ctx, bareDelete, bareQueue, seqs)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != queue.GroupRows {
			return fmt.Errorf("%d rows are gone instead of %d", tag.RowsAffected(), queue.GroupRows)
		}
		deleted.Add(queue.GroupRows)
	}
	return nil
}
