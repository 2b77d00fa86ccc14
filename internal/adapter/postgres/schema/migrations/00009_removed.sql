-- +goose Up

CREATE TABLE runlot_queue.removed (
    removed_at timestamptz NOT NULL DEFAULT now(),
    scrapped   bigint      NOT NULL DEFAULT 0,
    queue_id   integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL
);
COMMENT ON TABLE runlot_queue.removed IS 'Queues that were deleted and whose messages and records are still being deleted.';
COMMENT ON COLUMN runlot_queue.removed.removed_at IS 'When the queue was deleted.';
COMMENT ON COLUMN runlot_queue.removed.scrapped IS 'No message of it is left up to this seq.';
COMMENT ON COLUMN runlot_queue.removed.queue_id IS 'What was its id in runlot_queue.queue; no other queue gets it.';
COMMENT ON COLUMN runlot_queue.removed.name IS 'What was its name; another queue may have it by now.';

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
    -- Whoever removes the queue takes this lock alone: either its transaction is over by now, and the queue is not found, or it
    -- waits for the end of this one. Snapshots that are older than the lock are looked behind by a lock of the row.
    PERFORM pg_advisory_xact_lock_shared(1903519093, hashtext(send_batch.queue));
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        SELECT q.id INTO target FROM runlot_queue.queue q WHERE q.name = send_batch.queue;
    ELSE
        SELECT q.id INTO target FROM runlot_queue.queue q WHERE q.name = send_batch.queue FOR KEY SHARE;
    END IF;
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
