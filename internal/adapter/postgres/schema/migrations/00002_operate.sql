-- +goose Up

ALTER TABLE runlot_queue.queue
    ADD COLUMN paused_at          timestamptz,
    ADD COLUMN retention          interval CHECK (retention > interval '0'),
    ADD COLUMN retention_override interval CHECK (retention_override > interval '0'),
    ADD COLUMN purged_below       bigint NOT NULL DEFAULT 0 CHECK (purged_below >= 0);
COMMENT ON COLUMN runlot_queue.queue.paused_at IS 'Since when nothing is delivered from it; null while it is delivered.';
COMMENT ON COLUMN runlot_queue.queue.retention IS 'How long a message stays unsettled, as its consumer declares it; null is the default.';
COMMENT ON COLUMN runlot_queue.queue.retention_override IS 'The same as an operator set it; it beats the consumer''s. Null when none did.';
COMMENT ON COLUMN runlot_queue.queue.purged_below IS 'Messages below this seq were purged and are being deleted; 0 when none are left.';

-- Both columns are null in every message that is no dead letter, which costs nothing: the row has a null bitmap anyway.
ALTER TABLE runlot_queue.message
    ADD COLUMN source_id integer,
    ADD COLUMN reason    text;
COMMENT ON COLUMN runlot_queue.message.source_id IS 'The queue whose consumer ran out of retries for it; null in a message that is no dead letter.';
COMMENT ON COLUMN runlot_queue.message.reason IS 'Why its last delivery there failed, where that is known.';

CREATE INDEX message_origin ON runlot_queue.message (queue_id, origin) WHERE origin IS NOT NULL;
COMMENT ON INDEX runlot_queue.message_origin IS 'Finds a message that moved between queues by its id.';

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
       m.reason
FROM runlot_queue.message m
JOIN runlot_queue.queue q ON q.id = m.queue_id
LEFT JOIN runlot_queue.queue s ON s.id = m.source_id
CROSS JOIN runlot_queue.owner o
WHERE m.seq >= q.purged_below
UNION ALL
SELECT q.name, NULL, 'inbox', 0, i.sent_at, coalesce(i.visible_at, i.sent_at), 'json', octet_length(i.body), runlot_queue.body_as_jsonb(1::smallint, i.body), NULL, NULL
FROM runlot_queue.inbox i
JOIN runlot_queue.queue q ON q.id = i.queue_id;
COMMENT ON COLUMN runlot_queue.messages.source IS 'The queue that a dead letter came from; null for everything else.';
COMMENT ON COLUMN runlot_queue.messages.reason IS 'Why the last delivery of a dead letter failed, where that is known.';
