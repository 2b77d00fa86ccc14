package d1

import (
	"crypto/md5" //nolint:gosec // the name of a content in this protocol; nothing is protected by it
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// registerTransfers adds the calls by which files of SQL come and go. A client gets an address with a secret in it, which it
// uses without a token.
func (s *service) registerTransfers(r *wire.Router) {
	const one = wire.Account + "/d1/database/{database}"
	r.Handle("POST "+one+"/import", access.Deploy, s.importSQL)
	r.HandleSecret("PUT /d1/uploads/{secret}", queue.D1MigrationBytes, s.upload)
	r.Handle("POST "+one+"/export", access.Read, s.export)
	r.HandleSecret("GET /d1/downloads/{secret}", queue.MaxAPIBody, s.download)
	for _, pattern := range []string{"GET " + one + "/time_travel/bookmark", "POST " + one + "/time_travel/restore"} {
		r.Handle(pattern, access.Read, func(http.ResponseWriter, *wire.Call) error {
			return fault.New(fault.Invalid, wire.CodeD1, "celld keeps no earlier states of a D1 database, so that there is no way back in time").
				WithHint("`celld backup` copies all of them, and `wrangler d1 export` writes one as SQL")
		})
	}
}

// slot is a file of SQL on its way.
type slot struct {
	secret   string
	database database
	made     time.Time
	// name and sum are of an import: what the client calls the content, and its MD5. body is nil until it came.
	name, sum string
	body      []byte
	// dump is of an export.
	dump *d1.Dump
}

// slots are those that are not used up. Each is used once.
type slots struct {
	mu  sync.Mutex
	all map[string]*slot // by secret; guarded by mu
}

func newSlots() *slots { return &slots{all: map[string]*slot{}} }

// prune forgets what nobody came for. The caller holds mu.
func (s *slots) prune(now time.Time) {
	for secret, one := range s.all {
		if now.Sub(one.made) > queue.D1TransferTime {
			delete(s.all, secret)
		}
	}
}

func (s *slots) add(one *slot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.secret, one.made = rand.Text(), time.Now()
	s.prune(one.made)
	if len(s.all) >= queue.D1Transfers {
		return fault.New(fault.Unavailable, "d1_transfers", "%d files of SQL are on their way, and more are not possible", len(s.all)).WithHint("try again in a minute")
	}
	s.all[one.secret] = one
	return nil
}

// take takes out the one that is meant; nil when there is none.
func (s *slots) take(is func(*slot) bool) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(time.Now())
	for secret, one := range s.all {
		if is(one) {
			delete(s.all, secret)
			return one
		}
	}
	return nil
}

// put brings one back, with a body.
func (s *slots) put(one *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[one.secret] = one
}

// gone is said of an address that is not known.
func gone() error {
	return fault.New(fault.NotFound, wire.CodeD1Unknown, "this address was used already, or is older than %s", queue.D1TransferTime).WithHint("begin again")
}

// importSQL runs a file: "init" answers where it is to be put, and "ingest" runs it, as one transaction, before it answers.
func (s *service) importSQL(w http.ResponseWriter, c *wire.Call) error {
	d, err := s.find(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Action   string `json:"action"`
		Sum      string `json:"etag"`
		Filename string `json:"filename"`
	}](c)
	if err != nil {
		return err
	}
	switch in.Action {
	case "init":
		one := &slot{database: *d, sum: strings.ToLower(in.Sum), name: d.name + "." + in.Sum + ".sql"}
		if len(in.Sum) != hex.EncodedLen(md5.Size) {
			return fault.New(fault.Invalid, wire.CodeD1, "%q is no MD5 of a file", in.Sum)
		}
		if err := s.slots.add(one); err != nil {
			return err
		}
		wire.Answer(w, map[string]any{"success": true, "filename": one.name, "upload_url": wire.URL(c.Request, "http") + "/d1/uploads/" + one.secret})
		return nil
	case "ingest":
		return s.ingest(w, c, d, in.Filename, strings.ToLower(in.Sum))
	case "poll":
		return fault.New(fault.NotFound, wire.CodeD1Unknown, "no import is under way: an import has ended when its call is answered")
	}
	return fault.New(fault.Invalid, wire.CodeD1, "there is no action %q of an import", in.Action).WithHint("init, ingest and poll are those that there are")
}

// upload takes the file of an import.
func (s *service) upload(w http.ResponseWriter, c *wire.Call) error {
	secret := c.PathValue("secret")
	one := s.slots.take(func(one *slot) bool { return one.secret == secret && one.sum != "" && one.body == nil })
	if one == nil {
		return gone()
	}
	body, err := io.ReadAll(c.Body)
	if err != nil {
		return fault.New(fault.Limit, wire.CodeD1, "the file cannot be read, or has more than %d bytes", queue.D1MigrationBytes).
			WithHint("split it").WithCause(err)
	}
	sum := md5.Sum(body) //nolint:gosec // see above
	if got := hex.EncodeToString(sum[:]); got != one.sum {
		return fault.New(fault.Invalid, wire.CodeD1, "the file is not the one that was announced: its MD5 is %s, not %s", got, one.sum)
	}
	one.body = append([]byte{}, body...)
	s.slots.put(one)
	w.Header().Set("ETag", strconv.Quote(one.sum))
	w.WriteHeader(http.StatusOK)
	return nil
}

// bookmark is the place of a database in its history, of which there is none.
const bookmark = "00000000-00000000-00000000-00000000000000000000000000000000"

func (s *service) ingest(w http.ResponseWriter, c *wire.Call, d *database, name, sum string) error {
	one := s.slots.take(func(one *slot) bool {
		return one.database.identity == d.identity && one.name == name && one.sum == sum && one.body != nil
	})
	if one == nil {
		return gone()
	}
	queries, err := (&statement{SQL: string(one.body)}).queries()
	if err != nil {
		return err
	}
	if len(queries) == 0 {
		return fault.New(fault.Invalid, wire.CodeD1, "%s", d1.NoStatement)
	}
	// Rows that an import selects are for nobody.
	results, err := s.o.Databases.Run(wire.Finished(c), d.identity, queries)
	if err != nil {
		return failed(err)
	}
	var all d1.Meta
	for i := range results {
		m := &results[i].Meta
		all.Milliseconds += m.Milliseconds
		all.Changes, all.RowsRead, all.RowsWritten, all.SizeAfter = all.Changes+m.Changes, all.RowsRead+m.RowsRead, all.RowsWritten+m.RowsWritten, m.SizeAfter
	}
	s.note(c, "d1.imported", d, map[string]string{"statements": strconv.Itoa(len(queries)), "rows": strconv.FormatInt(all.Changes, 10)})
	wire.Answer(w, map[string]any{
		"success": true, "type": "import", "status": "complete", "at_bookmark": bookmark, "messages": []string{},
		"result": map[string]any{"num_queries": len(queries), "final_bookmark": bookmark, "meta": map[string]any{
			"duration": all.Milliseconds, "rows_read": all.RowsRead, "rows_written": all.RowsWritten, "size_after": all.SizeAfter,
			"changes": all.Changes, "changed_db": all.Changes > 0, "served_by": "celld",
		}},
	})
	return nil
}

// export answers where the database is, as SQL: it is written when it is fetched.
func (s *service) export(w http.ResponseWriter, c *wire.Call) error {
	d, err := s.find(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Options struct {
			NoSchema bool     `json:"no_schema"`
			NoData   bool     `json:"no_data"`
			Tables   []string `json:"tables"`
		} `json:"dump_options"`
	}](c)
	if err != nil {
		return err
	}
	if err := s.o.Databases.Dumpable(c.Context(), d.identity); err != nil {
		return failed(err)
	}
	one := &slot{database: *d, dump: &d1.Dump{NoSchema: in.Options.NoSchema, NoData: in.Options.NoData, Tables: in.Options.Tables}}
	if err := s.slots.add(one); err != nil {
		return err
	}
	s.note(c, "d1.exported", d, nil)
	wire.Answer(w, map[string]any{
		"success": true, "type": "export", "status": "complete", "at_bookmark": bookmark, "messages": []string{},
		"result": map[string]string{"filename": d.name + ".sql", "signed_url": wire.URL(c.Request, "http") + "/d1/downloads/" + one.secret},
	})
	return nil
}

// started notes whether anything was written.
type started struct {
	http.ResponseWriter

	yes bool
}

func (s *started) Write(b []byte) (int, error) {
	s.yes = true
	return s.ResponseWriter.Write(b)
}

// download writes an export. One that fails on its way is broken off, so that nobody takes a part for the whole.
func (s *service) download(w http.ResponseWriter, c *wire.Call) error {
	secret := c.PathValue("secret")
	one := s.slots.take(func(one *slot) bool { return one.secret == secret && one.dump != nil })
	if one == nil {
		return gone()
	}
	w.Header().Set("Content-Type", "application/sql")
	out := &started{ResponseWriter: w}
	err := s.o.Databases.Dump(c.Context(), one.database.identity, one.dump, out)
	if err != nil && out.yes {
		if !errors.Is(err, c.Context().Err()) {
			s.o.Log.Error("an export is broken off", "database", one.database.name, "error", fault.Detail(err))
		}
		panic(http.ErrAbortHandler)
	}
	return failed(err)
}
