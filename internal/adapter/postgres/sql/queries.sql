-- name: Queues :many
SELECT id, name, (extract(epoch FROM created_at) * 1000)::bigint AS created_at, ready_mark,
       (extract(epoch FROM due_mark) * 1000)::bigint AS due_mark,
       coalesce(extract(epoch FROM paused_at) * 1000, 0)::bigint AS paused_at,
       coalesce(extract(epoch FROM retention) * 1000, 0)::bigint AS retention,
       coalesce(extract(epoch FROM retention_override) * 1000, 0)::bigint AS retention_override,
       coalesce(extract(epoch FROM delivery_delay) * 1000, 0)::bigint AS delivery_delay,
       coalesce(pull::text, '')::text AS pull,
       purged_below
FROM runlot_queue.queue
ORDER BY id;

-- name: Declare :exec
INSERT INTO runlot_queue.queue (name)
SELECT n FROM unnest(@names::text[]) AS n
WHERE NOT EXISTS (SELECT FROM runlot_queue.queue q WHERE q.name = n)
ON CONFLICT (name) DO NOTHING;

-- name: QueuesByName :many
SELECT id, name, (extract(epoch FROM created_at) * 1000)::bigint AS created_at, ready_mark,
       (extract(epoch FROM due_mark) * 1000)::bigint AS due_mark,
       coalesce(extract(epoch FROM paused_at) * 1000, 0)::bigint AS paused_at,
       coalesce(extract(epoch FROM retention) * 1000, 0)::bigint AS retention,
       coalesce(extract(epoch FROM retention_override) * 1000, 0)::bigint AS retention_override,
       coalesce(extract(epoch FROM delivery_delay) * 1000, 0)::bigint AS delivery_delay,
       coalesce(pull::text, '')::text AS pull,
       purged_below
FROM runlot_queue.queue
WHERE name = ANY(@names::text[]);

-- name: SaveMarks :exec
UPDATE runlot_queue.queue q
SET ready_mark = k.ready_mark, due_mark = k.due_mark
FROM (SELECT unnest(@queue_ids::int[]) AS id, unnest(@ready_marks::bigint[]) AS ready_mark, unnest(@due_marks::timestamptz[]) AS due_mark) k
WHERE q.id = k.id;

-- name: TakeOver :one
UPDATE runlot_queue.owner
SET epoch = epoch + 1, node = @node, since = now()
RETURNING store_id, epoch, next_seq;

-- name: Reserve :execrows
UPDATE runlot_queue.owner
SET next_seq = greatest(next_seq, @next_seq::bigint)
WHERE epoch = @epoch;

-- name: OwnerSessions :many
-- The other sessions of this database that are named like an owner's, for the end of those of earlier owners.
SELECT pid, backend_start, coalesce(application_name, '') AS name
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database()
  AND pid <> pg_backend_pid()
  AND application_name LIKE 'runlot/%';

-- name: Session :one
-- What a write session has to know about itself: that it talks to its own backend, and which ownership is the current one.
SELECT a.pid, a.backend_start, o.epoch
FROM pg_catalog.pg_stat_activity a, runlot_queue.owner o
WHERE a.pid = pg_backend_pid();

-- name: EndSession :many
-- Ends one particular session and waits up to five seconds for it; a row says that it was there.
SELECT pg_terminate_backend(pid, 5000) AS gone
FROM pg_catalog.pg_stat_activity
WHERE pid = @pid AND backend_start = @backend_start;

-- name: ExpireCandidates :many
SELECT seq, octet_length(body)::int AS bytes
FROM runlot_queue.message
WHERE queue_id = @queue_id AND seq > @after AND seq < @before
ORDER BY seq
LIMIT @max_rows;

-- name: Counts :many
SELECT queue_id, count(*) AS messages, coalesce(sum(octet_length(body)), 0)::bigint AS bytes
FROM runlot_queue.message
GROUP BY queue_id;

-- name: Configure :exec
UPDATE runlot_queue.queue
SET paused_at = nullif(@paused_at::timestamptz, 'epoch'),
    retention = make_interval(secs => nullif(@retention::float8, 0)),
    retention_override = make_interval(secs => nullif(@retention_override::float8, 0)),
    delivery_delay = make_interval(secs => nullif(@delivery_delay::float8, 0)),
    pull = nullif(@pull::text, '')::jsonb,
    purged_below = @purged_below
WHERE id = @id;

-- name: ListReady :many
SELECT seq, coalesce(origin, 0)::bigint AS origin, format, failures, losses, (extract(epoch FROM sent_at) * 1000)::bigint AS sent_at,
       coalesce(extract(epoch FROM visible_at) * 1000, 0)::bigint AS visible_at, octet_length(body)::int AS bytes,
       coalesce(source_id, 0)::int AS source, coalesce(reason, '') AS reason,
       coalesce(retry_outcome, 0)::smallint AS retry_outcome, coalesce(retry_reason, '') AS retry_reason
FROM runlot_queue.message
WHERE queue_id = @queue_id AND visible_at IS NULL AND seq > @after AND seq <= @up_to
ORDER BY seq
LIMIT @max_rows;

-- name: ListDue :many
SELECT seq, coalesce(origin, 0)::bigint AS origin, format, failures, losses, (extract(epoch FROM sent_at) * 1000)::bigint AS sent_at,
       coalesce(extract(epoch FROM visible_at) * 1000, 0)::bigint AS visible_at, octet_length(body)::int AS bytes,
       coalesce(source_id, 0)::int AS source, coalesce(reason, '') AS reason,
       coalesce(retry_outcome, 0)::smallint AS retry_outcome, coalesce(retry_reason, '') AS retry_reason
FROM runlot_queue.message
WHERE queue_id = @queue_id AND visible_at IS NOT NULL
  AND (visible_at, seq) > (@after::timestamptz, @after_seq::bigint) AND visible_at <= @up_to::timestamptz
ORDER BY visible_at, seq
LIMIT @max_rows;

-- name: FindAccepted :many
SELECT seq, coalesce(origin, 0)::bigint AS origin, format, failures, losses, (extract(epoch FROM sent_at) * 1000)::bigint AS sent_at,
       coalesce(extract(epoch FROM visible_at) * 1000, 0)::bigint AS visible_at, octet_length(body)::int AS bytes,
       coalesce(source_id, 0)::int AS source, coalesce(reason, '') AS reason,
       coalesce(retry_outcome, 0)::smallint AS retry_outcome, coalesce(retry_reason, '') AS retry_reason
FROM runlot_queue.message
WHERE queue_id = @queue_id AND seq = ANY(@seqs::bigint[]) AND origin IS NULL;

-- name: FindMoved :many
SELECT seq, coalesce(origin, 0)::bigint AS origin, format, failures, losses, (extract(epoch FROM sent_at) * 1000)::bigint AS sent_at,
       coalesce(extract(epoch FROM visible_at) * 1000, 0)::bigint AS visible_at, octet_length(body)::int AS bytes,
       coalesce(source_id, 0)::int AS source, coalesce(reason, '') AS reason,
       coalesce(retry_outcome, 0)::smallint AS retry_outcome, coalesce(retry_reason, '') AS retry_reason
FROM runlot_queue.message
WHERE queue_id = @queue_id AND origin = ANY(@seqs::bigint[]) AND origin IS NOT NULL;

-- name: Bodies :many
SELECT seq, substring(body FROM 1 FOR @max_bytes::int)::bytea AS body
FROM runlot_queue.message
WHERE queue_id = @queue_id AND seq = ANY(@seqs::bigint[]);
