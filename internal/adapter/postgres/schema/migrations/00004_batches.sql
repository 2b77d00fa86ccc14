-- +goose Up

-- One row a handler call, written in groups and deleted by ranges of the primary key. Eight-byte columns come first.
CREATE TABLE runlot_queue.batch (
    number      bigint      NOT NULL,
    started_at  timestamptz NOT NULL,
    duration    bigint      NOT NULL,
    queue_id    integer     NOT NULL,
    delivered   integer     NOT NULL,
    acked       integer     NOT NULL,
    retried     integer     NOT NULL,
    redelivered integer     NOT NULL,
    dead        integer     NOT NULL,
    dropped     integer     NOT NULL,
    expired     integer     NOT NULL,
    missed      integer     NOT NULL,
    outcome     smallint    NOT NULL,
    app         text        NOT NULL,
    version     text        NOT NULL,
    delivery    text        NOT NULL,
    error_name     text,
    error_message  text,
    error_location text,
    error_stack    text,
    reason      text,
    warnings    text,
    logs        text,
    fates       bytea,
    CONSTRAINT batch_pkey PRIMARY KEY (queue_id, number),
    CONSTRAINT batch_number CHECK (number > 0),
    CONSTRAINT batch_outcome CHECK (outcome BETWEEN 1 AND 7),
    CONSTRAINT batch_fates CHECK (octet_length(fates) % 23 = 0)
) WITH (
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 1, autovacuum_analyze_threshold = 100000
);
COMMENT ON TABLE runlot_queue.batch IS 'How batches ended. Read it through runlot_queue.batches and runlot_queue.batch_fates.';
COMMENT ON COLUMN runlot_queue.batch.number IS 'Order of the records of a queue: milliseconds since 1970 times 2^20, plus bits that differ.';
COMMENT ON COLUMN runlot_queue.batch.started_at IS 'When the handler was called.';
COMMENT ON COLUMN runlot_queue.batch.duration IS 'Microseconds of the handler call.';
COMMENT ON COLUMN runlot_queue.batch.queue_id IS 'The queue.';
COMMENT ON COLUMN runlot_queue.batch.delivered IS 'Messages in the batch.';
COMMENT ON COLUMN runlot_queue.batch.acked IS 'Messages that were acknowledged.';
COMMENT ON COLUMN runlot_queue.batch.retried IS 'Messages that come again and spent a retry.';
COMMENT ON COLUMN runlot_queue.batch.redelivered IS 'Messages that come again and spent none.';
COMMENT ON COLUMN runlot_queue.batch.dead IS 'Messages that moved to the dead-letter queue.';
COMMENT ON COLUMN runlot_queue.batch.dropped IS 'Messages that were deleted, out of retries.';
COMMENT ON COLUMN runlot_queue.batch.expired IS 'Messages that were deleted at the end of their retention.';
COMMENT ON COLUMN runlot_queue.batch.missed IS 'Records that were not kept, in a record of such a gap.';
COMMENT ON COLUMN runlot_queue.batch.outcome IS '1 ok, 2 failed, 3 timeout, 4 lost, 5 error, 6 expired, 7 gap.';
COMMENT ON COLUMN runlot_queue.batch.app IS 'The app that was called.';
COMMENT ON COLUMN runlot_queue.batch.version IS 'Its version.';
COMMENT ON COLUMN runlot_queue.batch.delivery IS 'Identity of the call, by which its logs are found.';
COMMENT ON COLUMN runlot_queue.batch.error_name IS 'Class of what the handler threw; null when it threw nothing.';
COMMENT ON COLUMN runlot_queue.batch.error_message IS 'Its message.';
COMMENT ON COLUMN runlot_queue.batch.error_location IS 'file:line:column in the code of the app.';
COMMENT ON COLUMN runlot_queue.batch.error_stack IS 'Its stack, a frame a line.';
COMMENT ON COLUMN runlot_queue.batch.reason IS 'Why the handler did not run or end.';
COMMENT ON COLUMN runlot_queue.batch.warnings IS 'Warnings, one a line.';
COMMENT ON COLUMN runlot_queue.batch.logs IS 'What the handler logged, as a JSON list of time, level and text.';
COMMENT ON COLUMN runlot_queue.batch.fates IS 'Messages that were not simply acknowledged, 23 bytes each: id, fate (1 retried, 2 redelivered, 3 dead, 4 dropped), attempt, delay in ms.';

-- Records of what did not end well are looked for among many that did.
CREATE INDEX batch_trouble ON runlot_queue.batch (queue_id, number) WHERE outcome <> 1;
COMMENT ON INDEX runlot_queue.batch_trouble IS 'Records of everything but batches that ended well.';

CREATE TABLE runlot_queue.batch_held (
    lowest   bigint  NOT NULL,
    queue_id integer NOT NULL PRIMARY KEY,
    records  integer NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE runlot_queue.batch_held IS 'How many records of batches a queue has, so that the oldest are found without looking for them.';
COMMENT ON COLUMN runlot_queue.batch_held.lowest IS 'No record has a lower number.';
COMMENT ON COLUMN runlot_queue.batch_held.queue_id IS 'The queue.';
COMMENT ON COLUMN runlot_queue.batch_held.records IS 'The number of its records.';

CREATE VIEW runlot_queue.batches AS
SELECT q.name AS queue,
       q.name || '.' || lpad(to_hex(b.number), 16, '0') AS id,
       (ARRAY['ok', 'failed', 'timeout', 'lost', 'error', 'expired', 'gap'])[b.outcome] AS outcome,
       b.app,
       b.version,
       b.started_at,
       b.duration * interval '1 microsecond' AS duration,
       b.delivered, b.acked, b.retried, b.redelivered, b.dead, b.dropped, b.expired, b.missed,
       b.error_name || ': ' || b.error_message AS error,
       b.error_location,
       b.error_stack,
       b.reason,
       string_to_array(b.warnings, E'\n') AS warnings,
       b.logs::jsonb AS logs,
       b.delivery,
       to_timestamp((b.number >> 20) / 1000.0) AS recorded_at
FROM runlot_queue.batch b
JOIN runlot_queue.queue q ON q.id = b.queue_id;
COMMENT ON VIEW runlot_queue.batches IS 'How batches ended, for a person to read: the last 10,000 of each queue, for 7 days.';
COMMENT ON COLUMN runlot_queue.batches.queue IS 'Name of the queue.';
COMMENT ON COLUMN runlot_queue.batches.outcome IS
    'ok, failed (the handler threw), timeout, lost (its process died), error (it could not run); expired: messages outlived their retention; gap: records were not kept.';
COMMENT ON COLUMN runlot_queue.batches.app IS 'The app that was called.';
COMMENT ON COLUMN runlot_queue.batches.version IS 'Its version.';
COMMENT ON COLUMN runlot_queue.batches.started_at IS 'When the handler was called.';
COMMENT ON COLUMN runlot_queue.batches.duration IS 'How long the call took.';
COMMENT ON COLUMN runlot_queue.batches.delivered IS 'Messages in the batch.';
COMMENT ON COLUMN runlot_queue.batches.acked IS 'Messages that were acknowledged.';
COMMENT ON COLUMN runlot_queue.batches.retried IS 'Messages that come again and spent a retry.';
COMMENT ON COLUMN runlot_queue.batches.redelivered IS 'Messages that come again and spent none.';
COMMENT ON COLUMN runlot_queue.batches.dead IS 'Messages that moved to the dead-letter queue.';
COMMENT ON COLUMN runlot_queue.batches.dropped IS 'Messages that were deleted, out of retries.';
COMMENT ON COLUMN runlot_queue.batches.expired IS 'Messages that were deleted at the end of their retention.';
COMMENT ON COLUMN runlot_queue.batches.missed IS 'Records that were not kept; the counts of a gap are their sums.';
COMMENT ON COLUMN runlot_queue.batches.error IS 'What the handler threw; null when it threw nothing.';
COMMENT ON COLUMN runlot_queue.batches.error_location IS 'file:line:column in the code of the app.';
COMMENT ON COLUMN runlot_queue.batches.error_stack IS 'The stack, a frame a line.';
COMMENT ON COLUMN runlot_queue.batches.reason IS 'Why the handler did not run or end.';
COMMENT ON COLUMN runlot_queue.batches.warnings IS 'What the handler asked for and did not get.';
COMMENT ON COLUMN runlot_queue.batches.logs IS 'What the handler logged: a list of time, level and text.';
COMMENT ON COLUMN runlot_queue.batches.delivery IS 'Identity of the call, by which its logs are found.';
COMMENT ON COLUMN runlot_queue.batches.recorded_at IS 'When the batch was settled.';

CREATE VIEW runlot_queue.batch_fates AS
SELECT q.name AS queue,
       q.name || '.' || lpad(to_hex(b.number), 16, '0') AS batch,
       encode(substr(b.fates, 23 * n + 1, 16), 'hex') AS message,
       (ARRAY['retried', 'redelivered', 'dead', 'dropped'])[get_byte(b.fates, 23 * n + 16)] AS fate,
       get_byte(b.fates, 23 * n + 17) * 256 + get_byte(b.fates, 23 * n + 18) AS attempt,
       (get_byte(b.fates, 23 * n + 19)::bigint * 16777216 + get_byte(b.fates, 23 * n + 20) * 65536
           + get_byte(b.fates, 23 * n + 21) * 256 + get_byte(b.fates, 23 * n + 22)) * interval '1 millisecond' AS delay
FROM runlot_queue.batch b
JOIN runlot_queue.queue q ON q.id = b.queue_id
CROSS JOIN LATERAL generate_series(0, octet_length(b.fates) / 23 - 1) AS n
WHERE b.fates IS NOT NULL;
COMMENT ON VIEW runlot_queue.batch_fates IS 'The messages that a batch did not simply acknowledge, for a person to read.';
COMMENT ON COLUMN runlot_queue.batch_fates.queue IS 'Name of the queue.';
COMMENT ON COLUMN runlot_queue.batch_fates.batch IS 'The id in runlot_queue.batches.';
COMMENT ON COLUMN runlot_queue.batch_fates.message IS 'message.id of the handler.';
COMMENT ON COLUMN runlot_queue.batch_fates.fate IS 'retried (spent a retry), redelivered (spent none), dead or dropped.';
COMMENT ON COLUMN runlot_queue.batch_fates.attempt IS 'message.attempts of the handler.';
COMMENT ON COLUMN runlot_queue.batch_fates.delay IS 'The wait before the next delivery.';
