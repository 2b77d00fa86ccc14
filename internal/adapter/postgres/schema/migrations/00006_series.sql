-- +goose Up

-- One row for each minute in which a queue was not idle. The days take turns in nine tables, so that old ones are truncated:
-- there is nothing to vacuum. Eight-byte columns come first.
CREATE TABLE runlot_queue.minute (
    minute        timestamptz NOT NULL,
    writer        bigint      NOT NULL,
    sent          bigint      NOT NULL,
    sent_bytes    bigint      NOT NULL,
    arrived       bigint      NOT NULL,
    gone          bigint      NOT NULL,
    delivered     bigint      NOT NULL,
    acked         bigint      NOT NULL,
    retried       bigint      NOT NULL,
    redelivered   bigint      NOT NULL,
    dead          bigint      NOT NULL,
    dropped       bigint      NOT NULL,
    expired       bigint      NOT NULL,
    handler_us    bigint      NOT NULL,
    max_visible   bigint      NOT NULL,
    max_delayed   bigint      NOT NULL,
    max_in_flight bigint      NOT NULL,
    max_oldest_ms bigint      NOT NULL,
    max_bytes     bigint      NOT NULL,
    queue_id      integer     NOT NULL,
    max_running   integer     NOT NULL,
    max_allowed   integer     NOT NULL,
    day           smallint    NOT NULL,
    batches       integer[]   NOT NULL,
    handler       integer[]   NOT NULL,
    CONSTRAINT minute_pkey PRIMARY KEY (day, queue_id, minute, writer)
) PARTITION BY LIST (day);
COMMENT ON TABLE runlot_queue.minute IS 'How queues did, minute by minute. Read it through runlot_queue.minutes.';
COMMENT ON COLUMN runlot_queue.minute.minute IS 'When the minute begins.';
COMMENT ON COLUMN runlot_queue.minute.writer IS 'The process that tells it; the rows of several add up.';
COMMENT ON COLUMN runlot_queue.minute.sent IS 'Messages that were sent.';
COMMENT ON COLUMN runlot_queue.minute.sent_bytes IS 'Bytes of their bodies.';
COMMENT ON COLUMN runlot_queue.minute.arrived IS 'Messages that came from another queue.';
COMMENT ON COLUMN runlot_queue.minute.gone IS 'Messages that are gone, for whatever reason.';
COMMENT ON COLUMN runlot_queue.minute.delivered IS 'Messages that handlers were given, each time again.';
COMMENT ON COLUMN runlot_queue.minute.acked IS 'Messages that were acknowledged.';
COMMENT ON COLUMN runlot_queue.minute.retried IS 'Messages that come again and spent a retry.';
COMMENT ON COLUMN runlot_queue.minute.redelivered IS 'Messages that come again and spent none.';
COMMENT ON COLUMN runlot_queue.minute.dead IS 'Messages that moved to the dead-letter queue.';
COMMENT ON COLUMN runlot_queue.minute.dropped IS 'Messages that were deleted, out of retries.';
COMMENT ON COLUMN runlot_queue.minute.expired IS 'Messages that were deleted at the end of their retention.';
COMMENT ON COLUMN runlot_queue.minute.handler_us IS 'Microseconds of all handler calls.';
COMMENT ON COLUMN runlot_queue.minute.max_visible IS 'The most messages that could be delivered.';
COMMENT ON COLUMN runlot_queue.minute.max_delayed IS 'The most that could not be delivered yet.';
COMMENT ON COLUMN runlot_queue.minute.max_in_flight IS 'The most in the hands of handlers.';
COMMENT ON COLUMN runlot_queue.minute.max_oldest_ms IS 'The highest age of a message that was visible or in flight, in milliseconds.';
COMMENT ON COLUMN runlot_queue.minute.max_bytes IS 'The most memory of messages that were ready, in bytes.';
COMMENT ON COLUMN runlot_queue.minute.queue_id IS 'The queue.';
COMMENT ON COLUMN runlot_queue.minute.max_running IS 'The most handler calls at a time.';
COMMENT ON COLUMN runlot_queue.minute.max_allowed IS 'The most that were allowed.';
COMMENT ON COLUMN runlot_queue.minute.day IS 'Days since 1970 modulo 9, in UTC.';
COMMENT ON COLUMN runlot_queue.minute.batches IS 'Batches that ended ok, failed, timeout, lost, error.';
COMMENT ON COLUMN runlot_queue.minute.handler IS 'Handler calls by time: up to 1, 1.5, 2, 3, 5, 7 ms, and so on for each decade up to 1,000 s, and longer. Zeros at the end are left out.';

-- +goose StatementBegin
DO $$
BEGIN
    FOR d IN 0..8 LOOP
        EXECUTE format('CREATE TABLE runlot_queue.minute_%s (LIKE runlot_queue.minute INCLUDING COMMENTS)', d);
        EXECUTE format('COMMENT ON TABLE runlot_queue.minute_%s IS ''The minutes of every ninth day. Read them through runlot_queue.minutes.''', d);
        EXECUTE format('ALTER TABLE runlot_queue.minute ATTACH PARTITION runlot_queue.minute_%s FOR VALUES IN (%s)', d, d);
    END LOOP;
END
$$;
-- +goose StatementEnd

CREATE VIEW runlot_queue.minutes AS
SELECT q.name AS queue,
       m.minute,
       sum(m.sent)::bigint AS sent,
       sum(m.sent_bytes)::bigint AS sent_bytes,
       sum(m.arrived)::bigint AS arrived,
       sum(m.gone)::bigint AS gone,
       sum(m.delivered)::bigint AS delivered,
       sum(m.acked)::bigint AS acked,
       sum(m.retried)::bigint AS retried,
       sum(m.redelivered)::bigint AS redelivered,
       sum(m.dead)::bigint AS dead,
       sum(m.dropped)::bigint AS dropped,
       sum(m.expired)::bigint AS expired,
       sum(m.batches[1] + m.batches[2] + m.batches[3] + m.batches[4] + m.batches[5])::bigint AS batches,
       sum(m.batches[2] + m.batches[3] + m.batches[4] + m.batches[5])::bigint AS failed_batches,
       sum(m.handler_us) * interval '1 microsecond' AS handler_time,
       max(m.max_visible) AS max_visible,
       max(m.max_delayed) AS max_delayed,
       max(m.max_in_flight) AS max_in_flight,
       max(m.max_oldest_ms) * interval '1 millisecond' AS max_oldest,
       max(m.max_running) AS max_running
FROM runlot_queue.minute m
JOIN runlot_queue.queue q ON q.id = m.queue_id
WHERE m.minute > now() - interval '7 days'
GROUP BY q.name, m.minute;
COMMENT ON VIEW runlot_queue.minutes IS 'How queues did, for a person to read: each minute of the last 7 days in which a queue was not idle.';
COMMENT ON COLUMN runlot_queue.minutes.queue IS 'Name of the queue.';
COMMENT ON COLUMN runlot_queue.minutes.minute IS 'When the minute begins.';
COMMENT ON COLUMN runlot_queue.minutes.sent IS 'Messages that were sent.';
COMMENT ON COLUMN runlot_queue.minutes.sent_bytes IS 'Bytes of their bodies.';
COMMENT ON COLUMN runlot_queue.minutes.arrived IS 'Messages that came from another queue: dead letters, or what was redriven.';
COMMENT ON COLUMN runlot_queue.minutes.gone IS 'Messages that are gone, for whatever reason.';
COMMENT ON COLUMN runlot_queue.minutes.delivered IS 'Messages that handlers were given, each time again.';
COMMENT ON COLUMN runlot_queue.minutes.acked IS 'Messages that were acknowledged.';
COMMENT ON COLUMN runlot_queue.minutes.retried IS 'Messages that come again and spent a retry.';
COMMENT ON COLUMN runlot_queue.minutes.redelivered IS 'Messages that come again and spent none.';
COMMENT ON COLUMN runlot_queue.minutes.dead IS 'Messages that moved to the dead-letter queue.';
COMMENT ON COLUMN runlot_queue.minutes.dropped IS 'Messages that were deleted, out of retries.';
COMMENT ON COLUMN runlot_queue.minutes.expired IS 'Messages that were deleted at the end of their retention.';
COMMENT ON COLUMN runlot_queue.minutes.batches IS 'Batches that ended.';
COMMENT ON COLUMN runlot_queue.minutes.failed_batches IS 'Those of them that did not end well.';
COMMENT ON COLUMN runlot_queue.minutes.handler_time IS 'The time of all handler calls.';
COMMENT ON COLUMN runlot_queue.minutes.max_visible IS 'The most messages that could be delivered.';
COMMENT ON COLUMN runlot_queue.minutes.max_delayed IS 'The most that could not be delivered yet.';
COMMENT ON COLUMN runlot_queue.minutes.max_in_flight IS 'The most in the hands of handlers.';
COMMENT ON COLUMN runlot_queue.minutes.max_oldest IS 'The highest age of a message that was visible or in flight.';
COMMENT ON COLUMN runlot_queue.minutes.max_running IS 'The most handler calls at a time.';
