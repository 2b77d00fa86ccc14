-- +goose Up

-- The ids in a record of a batch are all of one database, so that eight bytes of each are enough. Null in records that name none.
ALTER TABLE runlot_queue.batch ADD COLUMN acks bytea
    CONSTRAINT batch_acks CHECK (octet_length(acks) % 10 = 8);
COMMENT ON COLUMN runlot_queue.batch.acks IS 'Messages that were acknowledged: 8 bytes that their ids begin with, then 10 bytes each: the rest of the id, attempt.';

CREATE VIEW runlot_queue.batch_acks AS
SELECT q.name AS queue,
       q.name || '.' || lpad(to_hex(b.number), 16, '0') AS batch,
       encode(substr(b.acks, 1, 8) || substr(b.acks, 10 * n + 9, 8), 'hex') AS message,
       get_byte(b.acks, 10 * n + 16) * 256 + get_byte(b.acks, 10 * n + 17) AS attempt
FROM runlot_queue.batch b
JOIN runlot_queue.queue q ON q.id = b.queue_id
CROSS JOIN LATERAL generate_series(0, octet_length(b.acks) / 10 - 1) AS n
WHERE b.acks IS NOT NULL;
COMMENT ON VIEW runlot_queue.batch_acks IS 'The messages that a batch acknowledged, for a person to read.';
COMMENT ON COLUMN runlot_queue.batch_acks.queue IS 'Name of the queue.';
COMMENT ON COLUMN runlot_queue.batch_acks.batch IS 'The id in runlot_queue.batches.';
COMMENT ON COLUMN runlot_queue.batch_acks.message IS 'message.id of the handler.';
COMMENT ON COLUMN runlot_queue.batch_acks.attempt IS 'message.attempts of the handler.';

-- Both are null in a message that was never tried, which costs nothing: the row has a null bitmap anyway.
ALTER TABLE runlot_queue.message
    ADD COLUMN retry_outcome smallint CONSTRAINT message_retry_outcome CHECK (retry_outcome BETWEEN 1 AND 5),
    ADD COLUMN retry_reason  text;
COMMENT ON COLUMN runlot_queue.message.retry_outcome IS 'How the last batch ended that gave it back: 1 ok, 2 failed, 3 timeout, 4 lost, 5 error. Null in a message that was not tried in its queue.';
COMMENT ON COLUMN runlot_queue.message.retry_reason IS 'Why that batch gave it back, for a person.';

CREATE OR REPLACE VIEW runlot_queue.messages AS
SELECT q.name AS queue,
       lpad(to_hex(o.store_id), 16, '0') || lpad(to_hex(coalesce(m.origin, m.seq)), 16, '0') AS id,
       CASE WHEN m.visible_at > now() THEN 'delayed' ELSE 'visible' END AS state,
       m.failures::integer AS attempts,
       m.sent_at,
       coalesce(m.visible_at, m.sent_at) AS visible_at,
       (ARRAY['json', 'text', 'bytes', 'v8'])[m.format] AS format,
       octet_length(m.body) AS size,
       runlot_queue.body_as_jsonb(m.format, m.body) AS body,
       s.name AS source,
       m.reason,
       (ARRAY['ok', 'failed', 'timeout', 'lost', 'error'])[m.retry_outcome] AS retry_outcome,
       m.retry_reason
FROM runlot_queue.message m
JOIN runlot_queue.queue q ON q.id = m.queue_id
LEFT JOIN runlot_queue.queue s ON s.id = m.source_id
CROSS JOIN runlot_queue.owner o
WHERE m.seq >= q.purged_below
UNION ALL
SELECT q.name, NULL, 'inbox', 0, i.sent_at, coalesce(i.visible_at, i.sent_at), 'json', octet_length(i.body), runlot_queue.body_as_jsonb(1::smallint, i.body), NULL, NULL, NULL, NULL
FROM runlot_queue.inbox i
JOIN runlot_queue.queue q ON q.id = i.queue_id;
COMMENT ON COLUMN runlot_queue.messages.retry_outcome IS 'How the last batch ended that gave the message back; ok is a retry that the handler asked for. Null when it was not tried.';
COMMENT ON COLUMN runlot_queue.messages.retry_reason IS 'Why that batch gave it back.';
