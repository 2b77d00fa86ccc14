-- +goose Up

CREATE SCHEMA IF NOT EXISTS runlot_queue;
COMMENT ON SCHEMA runlot_queue IS 'Durable queues of Runlot. Read runlot_queue.messages; enqueue with runlot_queue.send().';

CREATE TABLE runlot_queue.owner (
    singleton  boolean     NOT NULL PRIMARY KEY DEFAULT true CHECK (singleton),
    store_id   bigint      NOT NULL,
    epoch      bigint      NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    next_seq   bigint      NOT NULL DEFAULT 1 CHECK (next_seq > 0),
    node       text        NOT NULL DEFAULT '',
    since      timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE runlot_queue.owner IS 'One row: which node delivers the queues of this database. Ownership itself is a session advisory lock.';
COMMENT ON COLUMN runlot_queue.owner.store_id IS 'Random identity of this database, the first half of every message id. Never changes.';
COMMENT ON COLUMN runlot_queue.owner.epoch IS 'Number of the current ownership; sessions of the owner are named runlot/<epoch>.';
COMMENT ON COLUMN runlot_queue.owner.next_seq IS 'Above every sequence number that may have been assigned.';
COMMENT ON COLUMN runlot_queue.owner.node IS 'The node that took the ownership last.';
COMMENT ON COLUMN runlot_queue.owner.since IS 'When it took it.';

-- A version 4 UUID has six fixed bits; two first halves of 32 random bits each make 64.
INSERT INTO runlot_queue.owner (store_id)
VALUES (('x' || left(gen_random_uuid()::text, 8) || left(gen_random_uuid()::text, 8))::bit(64)::bigint);

CREATE TABLE runlot_queue.queue (
    created_at timestamptz NOT NULL DEFAULT now(),
    ready_mark bigint      NOT NULL DEFAULT 0 CHECK (ready_mark >= 0),
    due_mark   timestamptz NOT NULL DEFAULT 'epoch' CHECK (due_mark >= 'epoch'),
    id         integer     NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text        NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')
);
COMMENT ON TABLE runlot_queue.queue IS 'The queues of this database. Deploying an app that declares a queue creates it.';
COMMENT ON COLUMN runlot_queue.queue.ready_mark IS 'No message with visible_at null is left below this seq. May lag.';
COMMENT ON COLUMN runlot_queue.queue.due_mark IS 'No message with a visible_at is left before this time. May lag.';

-- Eight-byte columns come first, so that no row carries padding. No foreign key to queue and no second full index: both
-- would cost every send. Bodies are stored uncompressed (EXTERNAL), inline up to a page: pglz costs more than it saves,
-- and the size of an uncompressed body is known without reading it.
CREATE TABLE runlot_queue.message (
    seq        bigint      NOT NULL,
    origin     bigint,
    sent_at    timestamptz NOT NULL,
    visible_at timestamptz,
    queue_id   integer     NOT NULL,
    failures   smallint    NOT NULL,
    losses     smallint    NOT NULL,
    format     smallint    NOT NULL,
    body       bytea       NOT NULL,
    CONSTRAINT message_pkey PRIMARY KEY (queue_id, seq),
    CONSTRAINT message_seq CHECK (seq > 0 AND (origin IS NULL OR (origin > 0 AND origin < seq))),
    CONSTRAINT message_retried CHECK (failures >= 0 AND losses >= 0 AND (visible_at IS NOT NULL OR (failures = 0 AND losses = 0))),
    CONSTRAINT message_format CHECK (format BETWEEN 1 AND 4),
    CONSTRAINT message_size CHECK (octet_length(body) <= 131072)
) WITH (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 1, autovacuum_analyze_threshold = 100000,
    toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_threshold = 10000, toast.autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE runlot_queue.message ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX message_due ON runlot_queue.message (queue_id, visible_at, seq) WHERE visible_at IS NOT NULL;
COMMENT ON TABLE runlot_queue.message IS 'Accepted messages that are not settled yet. Only the owner writes here; read it through runlot_queue.messages.';
COMMENT ON COLUMN runlot_queue.message.seq IS 'Order of acceptance, unique in the database: milliseconds since 1970 times 2^20, plus a counter.';
COMMENT ON COLUMN runlot_queue.message.origin IS 'The seq under which a message that moved between queues was first accepted; it keeps its id by it.';
COMMENT ON COLUMN runlot_queue.message.sent_at IS 'When it was sent.';
COMMENT ON COLUMN runlot_queue.message.visible_at IS 'When it may be delivered. Null is at once: it was neither delayed nor tried.';
COMMENT ON COLUMN runlot_queue.message.queue_id IS 'The queue it waits in.';
COMMENT ON COLUMN runlot_queue.message.failures IS 'Deliveries that spent a retry.';
COMMENT ON COLUMN runlot_queue.message.losses IS 'Deliveries in a row in which the process or the node died.';
COMMENT ON COLUMN runlot_queue.message.format IS '1 json, 2 text, 3 bytes, 4 v8.';
COMMENT ON COLUMN runlot_queue.message.body IS 'The serialized body, as sent.';
COMMENT ON INDEX runlot_queue.message_due IS 'Delayed and retried messages in the order in which they fall due.';

CREATE TABLE runlot_queue.inbox (
    id         bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sent_at    timestamptz NOT NULL,
    visible_at timestamptz,
    queue_id   integer     NOT NULL,
    body       bytea       NOT NULL,
    CONSTRAINT inbox_size CHECK (octet_length(body) <= 131072)
) WITH (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 1, autovacuum_analyze_threshold = 100000
);
ALTER TABLE runlot_queue.inbox ALTER COLUMN body SET STORAGE EXTERNAL;
COMMENT ON TABLE runlot_queue.inbox IS 'What runlot_queue.send() enqueued and the owner has not accepted yet. Rows may commit in any order.';
COMMENT ON COLUMN runlot_queue.inbox.id IS 'Order of the calls. The transaction that draws it already has its transaction id.';
COMMENT ON COLUMN runlot_queue.inbox.sent_at IS 'When send() was called.';
COMMENT ON COLUMN runlot_queue.inbox.visible_at IS 'The call plus its delay; null without one.';
COMMENT ON COLUMN runlot_queue.inbox.queue_id IS 'The queue it goes to.';
COMMENT ON COLUMN runlot_queue.inbox.body IS 'The JSON text in UTF-8.';

-- +goose StatementBegin
CREATE FUNCTION runlot_queue.send_batch(queue text, bodies jsonb[], delay interval DEFAULT interval '0') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target  integer;
    sent    timestamptz := clock_timestamp();
    element jsonb;
    place   integer := 0;
    encoded bytea;
    due     timestamptz;
BEGIN
    SELECT q.id INTO target FROM runlot_queue.queue q WHERE q.name = send_batch.queue;
    IF target IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object',
            MESSAGE = format('queue "%s" does not exist in this database', coalesce(send_batch.queue, 'NULL')),
            HINT = 'Declare it in the runlot.json of an app that uses this database, and deploy the app.';
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
COMMENT ON FUNCTION runlot_queue.send_batch(text, jsonb[], interval) IS
    'Enqueues messages inside the transaction of the caller: committed they are delivered, rolled back they never existed.';

-- +goose StatementBegin
CREATE FUNCTION runlot_queue.send(queue text, body jsonb, delay interval DEFAULT interval '0') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM runlot_queue.send_batch(send.queue, ARRAY[send.body], send.delay);
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION runlot_queue.send(text, jsonb, interval) IS
    'Enqueues one message inside the transaction of the caller: committed it is delivered, rolled back it never existed.';

-- +goose StatementBegin
CREATE FUNCTION runlot_queue.body_as_jsonb(format smallint, body bytea) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    CASE format
        WHEN 1 THEN
            BEGIN
                RETURN convert_from(body, 'UTF8')::jsonb;
            EXCEPTION WHEN data_exception OR program_limit_exceeded OR statement_too_complex THEN
                RETURN to_jsonb(convert_from(body, 'UTF8'));
            END;
        WHEN 2 THEN
            RETURN to_jsonb(convert_from(body, 'UTF8'));
        ELSE
            RETURN to_jsonb(translate(encode(body, 'base64'), E'\n', ''));
    END CASE;
EXCEPTION WHEN data_exception THEN
    RETURN to_jsonb(translate(encode(body, 'base64'), E'\n', ''));
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION runlot_queue.body_as_jsonb(smallint, bytea) IS
    'A body for a person to read: JSON as it is, text as a string, anything else in base64. Never fails on a body.';

CREATE VIEW runlot_queue.messages AS
SELECT q.name AS queue,
       lpad(to_hex(o.store_id), 16, '0') || lpad(to_hex(coalesce(m.origin, m.seq)), 16, '0') AS id,
       CASE WHEN m.visible_at > now() THEN 'delayed' ELSE 'visible' END AS state,
       m.failures::integer AS attempts,
       m.sent_at,
       coalesce(m.visible_at, m.sent_at) AS visible_at,
       (ARRAY['json', 'text', 'bytes', 'v8'])[m.format] AS format,
       octet_length(m.body) AS size,
       runlot_queue.body_as_jsonb(m.format, m.body) AS body
FROM runlot_queue.message m
JOIN runlot_queue.queue q ON q.id = m.queue_id
CROSS JOIN runlot_queue.owner o
UNION ALL
SELECT q.name, NULL, 'inbox', 0, i.sent_at, coalesce(i.visible_at, i.sent_at), 'json', octet_length(i.body), runlot_queue.body_as_jsonb(1::smallint, i.body)
FROM runlot_queue.inbox i
JOIN runlot_queue.queue q ON q.id = i.queue_id;
COMMENT ON VIEW runlot_queue.messages IS 'Every message that is not settled, for a person to read.';
COMMENT ON COLUMN runlot_queue.messages.queue IS 'Name of the queue.';
COMMENT ON COLUMN runlot_queue.messages.id IS 'message.id of the handler, in 32 hexadecimal digits; null while it is in the inbox.';
COMMENT ON COLUMN runlot_queue.messages.state IS 'visible: deliverable or in flight; delayed: waits for visible_at; inbox: sent by SQL, accepted within a second by a running node.';
COMMENT ON COLUMN runlot_queue.messages.attempts IS 'Deliveries that spent a retry.';
COMMENT ON COLUMN runlot_queue.messages.sent_at IS 'When it was sent.';
COMMENT ON COLUMN runlot_queue.messages.visible_at IS 'From when on it may be delivered.';
COMMENT ON COLUMN runlot_queue.messages.format IS 'json, text, bytes or v8.';
COMMENT ON COLUMN runlot_queue.messages.size IS 'Bytes of the serialized body.';
COMMENT ON COLUMN runlot_queue.messages.body IS 'JSON as it is; text as a string; anything else in base64.';

REVOKE ALL ON FUNCTION runlot_queue.send(text, jsonb, interval), runlot_queue.send_batch(text, jsonb[], interval),
    runlot_queue.body_as_jsonb(smallint, bytea) FROM PUBLIC;
