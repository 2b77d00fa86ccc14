-- name: WriteMinutes :exec
-- Rows of one queue, minute and writer are the same one, written before. Lists of numbers come as text, since an array of
-- arrays cannot have members of different lengths.
INSERT INTO runlot_queue.minute (minute, writer, sent, sent_bytes, arrived, gone, delivered, acked, retried, redelivered, dead, dropped,
    expired, handler_us, max_visible, max_delayed, max_in_flight, max_oldest_ms, max_bytes, queue_id, max_running, max_allowed, day,
    batches, handler)
SELECT r.minute, r.writer, r.sent, r.sent_bytes, r.arrived, r.gone, r.delivered, r.acked, r.retried, r.redelivered, r.dead, r.dropped,
    r.expired, r.handler_us, r.max_visible, r.max_delayed, r.max_in_flight, r.max_oldest_ms, r.max_bytes, q.id, r.max_running,
    r.max_allowed, r.day, r.batches::int[], r.handler::int[]
FROM (SELECT unnest(@queues::text[]) AS queue, unnest(@minutes::timestamptz[]) AS minute, unnest(@writers::bigint[]) AS writer,
        unnest(@sent::bigint[]) AS sent, unnest(@sent_bytes::bigint[]) AS sent_bytes, unnest(@arrived::bigint[]) AS arrived,
        unnest(@gone::bigint[]) AS gone, unnest(@delivered::bigint[]) AS delivered, unnest(@acked::bigint[]) AS acked,
        unnest(@retried::bigint[]) AS retried, unnest(@redelivered::bigint[]) AS redelivered, unnest(@dead::bigint[]) AS dead,
        unnest(@dropped::bigint[]) AS dropped, unnest(@expired::bigint[]) AS expired, unnest(@handler_us::bigint[]) AS handler_us,
        unnest(@max_visible::bigint[]) AS max_visible, unnest(@max_delayed::bigint[]) AS max_delayed,
        unnest(@max_in_flight::bigint[]) AS max_in_flight, unnest(@max_oldest_ms::bigint[]) AS max_oldest_ms,
        unnest(@max_bytes::bigint[]) AS max_bytes, unnest(@max_running::int[]) AS max_running, unnest(@max_allowed::int[]) AS max_allowed,
        unnest(@days::smallint[]) AS day, unnest(@batches::text[]) AS batches, unnest(@handlers::text[]) AS handler) r
JOIN runlot_queue.queue q ON q.name = r.queue
ON CONFLICT (day, queue_id, minute, writer) DO NOTHING;

-- name: ReadMinutes :many
SELECT m.minute, m.writer, m.sent, m.sent_bytes, m.arrived, m.gone, m.delivered, m.acked, m.retried, m.redelivered, m.dead, m.dropped,
    m.expired, m.handler_us, m.max_visible, m.max_delayed, m.max_in_flight, m.max_oldest_ms, m.max_bytes, m.max_running, m.max_allowed,
    m.batches, m.handler
FROM runlot_queue.minute m
WHERE m.queue_id = (SELECT q.id FROM runlot_queue.queue q WHERE q.name = @queue)
    AND m.day = ANY(@days::smallint[]) AND m.minute >= @from_minute AND m.minute < @to_minute
ORDER BY m.minute, m.writer;

-- name: HoldsMinutes :one
-- Whether a day's table has a row, and whether it has one that is to stay.
SELECT EXISTS (SELECT FROM runlot_queue.minute m WHERE m.day = @day) AS some,
    EXISTS (SELECT FROM runlot_queue.minute m WHERE m.day = @day AND m.minute >= @keep_from) AS needed;
