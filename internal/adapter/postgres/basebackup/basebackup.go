// Package basebackup copies a PostgreSQL server that is at work, file by file, as pg_basebackup does: over a replication
// session, with the log that makes the copy consistent in it. A server that is started on the copy has every transaction
// that was committed before the copy began, and those that were committed until it ended.
package basebackup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/runlot/runlot/internal/core/fault"
)

// Options say what to copy. All fields but Progress are required.
type Options struct {
	// Config is that of a replication session of a user who may replicate.
	Config *pgconn.Config
	// Each takes one file or folder. Its reader holds for the call only.
	Each func(header *tar.Header, body io.Reader) error
	// Progress is told the bytes that were read, and about how many there are. It is called often.
	Progress func(done, total int64)
}

// Copy copies the server and returns its version. The log is held back by a slot that ends with the session, so that it
// cannot be recycled while the copy lasts. Faults: Unavailable, when the server does not answer; Environment, when its files
// are damaged or lie outside of its folder.
func Copy(ctx context.Context, o Options) (version string, err error) {
	conn, err := pgconn.ConnectConfig(ctx, o.Config)
	if err != nil {
		return "", fault.New(fault.Unavailable, "postgres_connect", "PostgreSQL does not let the administrator in").
			WithHint("try again when it is up").WithCause(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	slot := fmt.Sprintf("CREATE_REPLICATION_SLOT runlot_backup_%d TEMPORARY PHYSICAL (RESERVE_WAL)", conn.PID())
	if _, err := conn.Exec(ctx, slot).ReadAll(); err != nil {
		return "", failed(ctx, err)
	}
	conn.Frontend().SendQuery(&pgproto3.Query{String: "BASE_BACKUP (LABEL 'runlot', PROGRESS, CHECKPOINT 'fast', WAL)"})
	if err := conn.Frontend().Flush(); err != nil {
		return "", failed(ctx, err)
	}
	s := &stream{ctx: ctx, conn: conn, progress: o.Progress}
	if err := s.begin(); err != nil {
		return "", failed(ctx, err)
	}
	files := tar.NewReader(s)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = o.Each(header, files)
		}
		if err != nil {
			return "", failed(ctx, errors.Join(err, s.err))
		}
	}
	if err := s.end(); err != nil {
		return "", failed(ctx, err)
	}
	return conn.ParameterStatus("server_version"), nil
}

// failed is the fault of a copy that did not come to its end.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return err
	case e.Code == "XX001":
		return fault.New(fault.Environment, "postgres_damaged", "a file of PostgreSQL is damaged: %s", e.Message).
			WithHint("look at the disk, and restore the last backup").WithCause(err)
	}
	return fault.New(fault.Unavailable, "postgres_copy", "PostgreSQL cannot be copied: %s", e.Message).
		WithHint("try again; the log of PostgreSQL may say more").WithCause(err)
}

// stream is the archive of the server's folder, as the messages of a session bring it.
type stream struct {
	ctx      context.Context //nolint:containedctx // a reader has no parameter for it
	conn     *pgconn.PgConn
	progress func(done, total int64)
	rest     []byte // of the last message
	err      error  // what ended the stream
	done     int64
	total    int64
	copied   bool // the copy's end was seen
}

// errOrder is what a server sends that does not keep to the protocol.
var errOrder = errors.New("PostgreSQL answers with what is no copy of it")

// receive returns the next message; what the server reports as an error is one.
func (s *stream) receive() (pgproto3.BackendMessage, error) {
	for {
		m, err := s.conn.ReceiveMessage(s.ctx)
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			return nil, pgconn.ErrorResponseToPgError(m)
		case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		default:
			return m, nil
		}
	}
}

// begin reads what comes before the archive: where the copy starts, and the folders that it consists of.
func (s *stream) begin() error {
	sets := 0
	for {
		m, err := s.receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.RowDescription:
			sets++
		case *pgproto3.DataRow:
			// Of the second set: oid, place and size in KiB; the folder itself has no oid.
			if sets != 2 || len(m.Values) != 3 {
				continue
			}
			if m.Values[0] != nil {
				return fault.New(fault.Environment, "postgres_tablespace", "the PostgreSQL holds tablespaces, which lie outside of its folder").
					WithHint("move what they hold to pg_default and drop them")
			}
			size, _ := strconv.ParseInt(string(m.Values[2]), 10, 64) // an estimate, for the progress alone
			s.total = size << 10
		case *pgproto3.CopyOutResponse:
			return nil
		case *pgproto3.ReadyForQuery:
			return errOrder
		}
	}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if s.rest, s.err = s.next(); s.err != nil {
			return 0, s.err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	s.done += int64(n)
	if s.progress != nil {
		s.progress(s.done, max(s.done, s.total))
	}
	return n, nil
}

// next returns more of the archive, and io.EOF behind it.
func (s *stream) next() ([]byte, error) {
	m, err := s.receive()
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *pgproto3.CopyData:
		switch kind, data := first(m.Data); kind {
		case 'd':
			return data, nil
		case 'n':
			if name, _, _ := bytes.Cut(data, []byte{0}); string(name) != "base.tar" {
				return nil, errOrder
			}
		}
		return nil, nil
	case *pgproto3.CopyDone:
		s.copied = true
		return nil, io.EOF
	}
	return nil, errOrder
}

func first(data []byte) (kind byte, rest []byte) {
	if len(data) == 0 {
		return 0, nil
	}
	return data[0], data[1:]
}

// end reads to the end of the answer. What the server finds wrong with the copy, it says there.
func (s *stream) end() error {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return err
	}
	if !s.copied {
		return errOrder
	}
	for {
		m, err := s.receive()
		if err != nil {
			return err
		}
		if _, ok := m.(*pgproto3.ReadyForQuery); ok {
			return nil
		}
	}
}
