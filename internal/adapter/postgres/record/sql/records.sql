-- name: WriteRecords :many
-- Adds records and counts them. Records of one number are the same one, written before. Queues are locked in order of id.
WITH added AS (
    INSERT INTO runlot_queue.batch (number, started_at, duration, queue_id, delivered, acked, retried, redelivered, dead, dropped,
        expired, missed, outcome, app, version, delivery, error_name, error_message, error_location, error_stack, reason, warnings, logs, fates, acks)
    SELECT r.number, r.started_at, r.duration, q.id, r.delivered, r.acked, r.retried, r.redelivered, r.dead, r.dropped,
        r.expired, r.missed, r.outcome, r.app, r.version, r.delivery, nullif(r.error_name, ''),
        CASE WHEN r.error_name <> '' THEN r.error_message END, CASE WHEN r.error_name <> '' THEN r.error_location END,
        CASE WHEN r.error_name <> '' THEN r.error_stack END, nullif(r.reason, ''), nullif(r.warnings, ''), nullif(r.logs, ''), nullif(r.fates, ''),
        nullif(r.acks, '')
    FROM (SELECT unnest(@queues::text[]) AS queue, unnest(@numbers::bigint[]) AS number, unnest(@started_ats::timestamptz[]) AS started_at,
            unnest(@durations::bigint[]) AS duration, unnest(@delivered::int[]) AS delivered, unnest(@acked::int[]) AS acked,
            unnest(@retried::int[]) AS retried, unnest(@redelivered::int[]) AS redelivered, unnest(@dead::int[]) AS dead,
            unnest(@dropped::int[]) AS dropped, unnest(@expired::int[]) AS expired, unnest(@missed::int[]) AS missed,
            unnest(@outcomes::smallint[]) AS outcome, unnest(@apps::text[]) AS app, unnest(@versions::text[]) AS version,
            unnest(@deliveries::text[]) AS delivery, unnest(@error_names::text[]) AS error_name,
            unnest(@error_messages::text[]) AS error_message, unnest(@error_locations::text[]) AS error_location,
            unnest(@error_stacks::text[]) AS error_stack, unnest(@reasons::text[]) AS reason,
            unnest(@warnings::text[]) AS warnings, unnest(@logs::text[]) AS logs, unnest(@fates::bytea[]) AS fates,
            unnest(@acks::bytea[]) AS acks) r
    JOIN runlot_queue.queue q ON q.name = r.queue
    ON CONFLICT (queue_id, number) DO NOTHING
    RETURNING queue_id, number
), counted AS (
    INSERT INTO runlot_queue.batch_held AS h (lowest, queue_id, records)
    SELECT min(number), queue_id, count(*)::int FROM added GROUP BY queue_id ORDER BY queue_id
    ON CONFLICT (queue_id) DO UPDATE SET records = h.records + excluded.records, lowest = least(h.lowest, excluded.lowest)
    RETURNING queue_id, records
)
SELECT q.name, c.records FROM counted c JOIN runlot_queue.queue q ON q.id = c.queue_id ORDER BY q.name;

-- name: OverdueRecords :many
-- Reads one row a queue.
SELECT q.name
FROM runlot_queue.batch_held h
JOIN runlot_queue.queue q ON q.id = h.queue_id
WHERE h.records > @keep::int OR h.records > 0 AND h.lowest < @before::bigint
ORDER BY q.name;

-- name: LockHeldRecords :one
SELECT h.queue_id, h.records, h.lowest
FROM runlot_queue.batch_held h
JOIN runlot_queue.queue q ON q.id = h.queue_id
WHERE q.name = @queue
FOR UPDATE OF h;

-- name: PruneRecords :one
-- Deletes from the lowest number on. The caller has locked the queue's row in batch_held.
WITH gone AS (
    DELETE FROM runlot_queue.batch b
    WHERE b.queue_id = @queue_id::int AND b.number >= @lowest::bigint AND b.number <= (
        SELECT max(o.number) FROM (
            SELECT i.number FROM runlot_queue.batch i
            WHERE i.queue_id = @queue_id::int AND i.number >= @lowest::bigint AND i.number < @before::bigint
            ORDER BY i.number
            LIMIT @max_rows::int) o)
    RETURNING b.number
)
SELECT count(*)::int AS rows, coalesce(max(number), 0)::bigint AS highest FROM gone;

-- name: SaveHeldRecords :exec
UPDATE runlot_queue.batch_held SET records = records - @gone::int, lowest = greatest(lowest, @lowest::bigint) WHERE queue_id = @queue_id;

-- name: ListRecords :many
-- The newest records of each queue, then the newest of these. No record has a number above before_number.
SELECT q.name AS queue, b.number, b.started_at, b.duration, b.delivered, b.acked, b.retried, b.redelivered, b.dead, b.dropped,
    b.expired, b.missed, b.outcome, b.app, b.version, b.delivery, coalesce(b.error_name, '') AS error_name,
    coalesce(b.error_message, '') AS error_message, coalesce(b.error_location, '') AS error_location,
    coalesce(b.reason, '') AS reason, coalesce(b.warnings, '') AS warnings
FROM runlot_queue.queue q
CROSS JOIN LATERAL (
    SELECT i.* FROM runlot_queue.batch i
    WHERE i.queue_id = q.id AND i.number >= @from_number::bigint AND i.number < @to_number::bigint
        AND (i.number < @before_number::bigint OR q.name COLLATE "C" < @before_queue::text)
        AND (@app::text = '' OR i.app = @app::text)
        AND (cardinality(@outcomes::smallint[]) = 0 OR i.outcome = ANY(@outcomes::smallint[]))
    ORDER BY i.number DESC
    LIMIT @max_rows::int) b
WHERE cardinality(@queues::text[]) = 0 OR q.name = ANY(@queues::text[])
ORDER BY b.number DESC, q.name COLLATE "C" DESC
LIMIT @max_rows::int;

-- name: ListTrouble :many
-- ListRecords for outcomes other than ok, by the index of these.
SELECT q.name AS queue, b.number, b.started_at, b.duration, b.delivered, b.acked, b.retried, b.redelivered, b.dead, b.dropped,
    b.expired, b.missed, b.outcome, b.app, b.version, b.delivery, coalesce(b.error_name, '') AS error_name,
    coalesce(b.error_message, '') AS error_message, coalesce(b.error_location, '') AS error_location,
    coalesce(b.reason, '') AS reason, coalesce(b.warnings, '') AS warnings
FROM runlot_queue.queue q
CROSS JOIN LATERAL (
    SELECT i.* FROM runlot_queue.batch i
    WHERE i.queue_id = q.id AND i.number >= @from_number::bigint AND i.number < @to_number::bigint AND i.outcome <> 1
        AND (i.number < @before_number::bigint OR q.name COLLATE "C" < @before_queue::text)
        AND (@app::text = '' OR i.app = @app::text)
        AND i.outcome = ANY(@outcomes::smallint[])
    ORDER BY i.number DESC
    LIMIT @max_rows::int) b
WHERE cardinality(@queues::text[]) = 0 OR q.name = ANY(@queues::text[])
ORDER BY b.number DESC, q.name COLLATE "C" DESC
LIMIT @max_rows::int;

-- name: RecordsOf :many
-- The newest records of some queues that name a message: its id, or its last eight bytes, are looked for in each of the time.
SELECT q.name AS queue, b.number, b.started_at, b.duration, b.delivered, b.acked, b.retried, b.redelivered, b.dead, b.dropped,
    b.expired, b.missed, b.outcome, b.app, b.version, b.delivery, coalesce(b.error_name, '') AS error_name,
    coalesce(b.error_message, '') AS error_message, coalesce(b.error_location, '') AS error_location,
    coalesce(b.reason, '') AS reason, coalesce(b.warnings, '') AS warnings,
    coalesce(b.fates, '') AS fates, coalesce(b.acks, '') AS acks
FROM runlot_queue.queue q
CROSS JOIN LATERAL (
    SELECT i.* FROM runlot_queue.batch i
    WHERE i.queue_id = q.id AND i.number >= @from_number::bigint AND (position(@message::bytea IN i.fates) > 0 OR position(@accepted::bytea IN i.acks) > 0)
    ORDER BY i.number DESC
    LIMIT @max_rows::int) b
WHERE q.name = ANY(@queues::text[])
ORDER BY b.number DESC, q.name COLLATE "C" DESC
LIMIT @max_rows::int;

-- name: GetRecord :one
SELECT q.name AS queue, b.number, b.started_at, b.duration, b.delivered, b.acked, b.retried, b.redelivered, b.dead, b.dropped,
    b.expired, b.missed, b.outcome, b.app, b.version, b.delivery, coalesce(b.error_name, '') AS error_name,
    coalesce(b.error_message, '') AS error_message, coalesce(b.error_location, '') AS error_location,
    coalesce(b.error_stack, '') AS error_stack, coalesce(b.reason, '') AS reason, coalesce(b.warnings, '') AS warnings,
    coalesce(b.logs, '') AS logs, coalesce(b.fates, '') AS fates, coalesce(b.acks, '') AS acks
FROM runlot_queue.batch b
JOIN runlot_queue.queue q ON q.id = b.queue_id
WHERE q.name = @queue AND b.number = @number;

-- name: LastRecords :many
-- One probe of the index a queue.
SELECT q.name AS queue, b.number, b.started_at, b.duration, b.delivered, b.acked, b.retried, b.redelivered, b.dead, b.dropped,
    b.expired, b.missed, b.outcome, b.app, b.version, b.delivery, coalesce(b.error_name, '') AS error_name,
    coalesce(b.error_message, '') AS error_message, coalesce(b.error_location, '') AS error_location,
    coalesce(b.reason, '') AS reason, coalesce(b.warnings, '') AS warnings
FROM runlot_queue.queue q
CROSS JOIN LATERAL (
    SELECT i.* FROM runlot_queue.batch i
    WHERE i.queue_id = q.id AND i.outcome <= 5
    ORDER BY i.number DESC
    LIMIT 1) b
ORDER BY q.name COLLATE "C";

-- name: SettledRecords :many
-- The newest records of a queue that name messages which left it.
SELECT q.name AS queue, b.number, b.started_at, b.duration, b.delivered, b.acked, b.retried, b.redelivered, b.dead, b.dropped,
    b.expired, b.missed, b.outcome, b.app, b.version, b.delivery, coalesce(b.error_name, '') AS error_name,
    coalesce(b.error_message, '') AS error_message, coalesce(b.error_location, '') AS error_location,
    coalesce(b.reason, '') AS reason, coalesce(b.warnings, '') AS warnings,
    coalesce(b.fates, '') AS fates, coalesce(b.acks, '') AS acks
FROM runlot_queue.queue q
CROSS JOIN LATERAL (
    SELECT i.* FROM runlot_queue.batch i
    WHERE i.queue_id = q.id AND i.number < @before_number::bigint AND (i.acks IS NOT NULL OR i.dead > 0 OR i.dropped > 0)
    ORDER BY i.number DESC
    LIMIT @max_rows::int) b
WHERE q.name = @queue
ORDER BY b.number DESC;
