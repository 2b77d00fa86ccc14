-- +goose Up

-- Rows are only inserted and deleted, never updated: while a long transaction elsewhere keeps dead rows, an update of one
-- row would have to walk over all its versions. The newest entry of a source and day says all, and is found from the end of
-- the index. Each source has one writer, so that no commit waits for the row of another.
CREATE TABLE runlot_queue.usage (
    number    bigint   NOT NULL,
    written   bigint   NOT NULL CHECK (written >= 0),
    delivered bigint   NOT NULL CHECK (delivered >= 0),
    deleted   bigint   NOT NULL CHECK (deleted >= 0),
    day       date     NOT NULL,
    source    smallint NOT NULL CHECK (source BETWEEN 1 AND 3),
    warned    smallint NOT NULL,
    CONSTRAINT usage_pkey PRIMARY KEY (source, day, number)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE runlot_queue.usage IS 'How many operations the queues have used. Only the owner writes here; read it through runlot_queue.usage_by_day.';
COMMENT ON COLUMN runlot_queue.usage.number IS 'Order of the entries of a source.';
COMMENT ON COLUMN runlot_queue.usage.written IS 'Operations of the day so far for messages that were written.';
COMMENT ON COLUMN runlot_queue.usage.delivered IS 'The same for messages that were delivered, each time again.';
COMMENT ON COLUMN runlot_queue.usage.deleted IS 'The same for messages that were deleted.';
COMMENT ON COLUMN runlot_queue.usage.day IS 'The day in UTC.';
COMMENT ON COLUMN runlot_queue.usage.source IS '1 sends, 2 settlements, both counted in the same transaction; 3 the rest, written within about a second.';
COMMENT ON COLUMN runlot_queue.usage.warned IS 'The part of the daily cap, in percent, that was told of.';

CREATE TABLE runlot_queue.refusal (
    until   timestamptz NOT NULL,
    code    text        NOT NULL PRIMARY KEY,
    message text        NOT NULL,
    hint    text        NOT NULL
);
COMMENT ON TABLE runlot_queue.refusal IS 'Why runlot_queue.send() refuses messages. The owner writes it when the queues reach a bound.';
COMMENT ON COLUMN runlot_queue.refusal.until IS 'When it ends by itself.';
COMMENT ON COLUMN runlot_queue.refusal.code IS 'queue_ops_cap or database_full.';
COMMENT ON COLUMN runlot_queue.refusal.message IS 'What the caller is told.';
COMMENT ON COLUMN runlot_queue.refusal.hint IS 'The way out.';

CREATE VIEW runlot_queue.usage_by_day AS
SELECT s.day,
       sum(s.written)::bigint AS written,
       sum(s.delivered)::bigint AS delivered,
       sum(s.deleted)::bigint AS deleted,
       (sum(s.written) + sum(s.delivered) + sum(s.deleted))::bigint AS total
FROM (SELECT DISTINCT ON (u.source, u.day) u.day, u.written, u.delivered, u.deleted
      FROM runlot_queue.usage u ORDER BY u.source DESC, u.day DESC, u.number DESC) s
GROUP BY s.day;
COMMENT ON VIEW runlot_queue.usage_by_day IS 'Operations by day, for 30 days: each started 64,000 bytes of a message written, delivered or deleted.';
COMMENT ON COLUMN runlot_queue.usage_by_day.day IS 'The day in UTC.';
COMMENT ON COLUMN runlot_queue.usage_by_day.written IS 'Sends, also those of SQL, and moves to another queue.';
COMMENT ON COLUMN runlot_queue.usage_by_day.delivered IS 'Deliveries, each time again.';
COMMENT ON COLUMN runlot_queue.usage_by_day.deleted IS 'Messages that were acknowledged, dropped or expired.';
COMMENT ON COLUMN runlot_queue.usage_by_day.total IS 'Their sum, which the daily cap is measured by.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runlot_queue.send_batch(queue text, bodies jsonb[], delay interval DEFAULT interval '0') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target  integer;
    sent    timestamptz := clock_timestamp();
    element jsonb;
    place   integer := 0;
    encoded bytea;
    due     timestamptz;
    refused record;
BEGIN
    SELECT q.id INTO target FROM runlot_queue.queue q WHERE q.name = send_batch.queue;
    IF target IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object',
            MESSAGE = format('queue "%s" does not exist in this database', coalesce(send_batch.queue, 'NULL')),
            HINT = 'Declare it in the runlot.json of an app that uses this database, and deploy the app.';
    END IF;
    SELECT r.message, r.hint, r.code INTO refused FROM runlot_queue.refusal r WHERE r.until > sent ORDER BY r.code LIMIT 1;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = CASE refused.code WHEN 'database_full' THEN 'disk_full' ELSE 'configuration_limit_exceeded' END,
            MESSAGE = refused.message, HINT = refused.hint, DETAIL = refused.code;
    END IF;
    IF delay IS NULL OR delay < interval '0' OR delay > interval '24 hours' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('delay %s is outside 0 to 24 hours', coalesce(delay::text, 'NULL')),
            HINT = 'Give an interval from ''0'' to ''24 hours''.';
    END IF;
    IF bodies IS NULL OR cardinality(bodies) = 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
            MESSAGE = 'a batch needs at least one message',
            HINT = 'Give an array of jsonb values.';
    END IF;
    IF delay > interval '0' THEN
        due := sent + delay;
    END IF;
    -- The transaction id is taken before the inbox id, so that the owner can tell when no lower inbox id can commit any more.
    PERFORM pg_current_xact_id();
    FOREACH element IN ARRAY bodies LOOP
        place := place + 1;
        IF element IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
                MESSAGE = format('the body of message %s is NULL', place),
                HINT = 'For a JSON null, send ''null''::jsonb.';
        END IF;
        encoded := convert_to(element::text, 'UTF8');
        IF octet_length(encoded) > 131072 THEN
            RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
                MESSAGE = format('the body of message %s has %s bytes as text; a message has at most 131072', place, octet_length(encoded)),
                HINT = 'Store large data elsewhere and send its id.';
        END IF;
        INSERT INTO runlot_queue.inbox (sent_at, visible_at, queue_id, body) VALUES (sent, due, target, encoded);
    END LOOP;
END
$$;
-- +goose StatementEnd
