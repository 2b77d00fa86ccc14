-- +goose Up

-- No foreign keys: a note outlives nothing that it names, and what it cannot find any more it leaves alone.
CREATE TABLE runlot_queue.undo (
    seq           bigint      NOT NULL,
    origin        bigint,
    noted_at      timestamptz NOT NULL,
    sent_at       timestamptz NOT NULL,
    visible_at    timestamptz,
    to_seq        bigint,
    to_visible_at timestamptz,
    queue_id      integer     NOT NULL,
    to_queue_id   integer,
    source_id     integer,
    bytes         integer     NOT NULL,
    kind          smallint    NOT NULL CHECK (kind BETWEEN 1 AND 3),
    failures      smallint    NOT NULL,
    losses        smallint    NOT NULL,
    format        smallint    NOT NULL,
    action        text        NOT NULL CHECK (octet_length(action) BETWEEN 1 AND 64),
    reason        text,
    trace         bytea,
    body          bytea,
    CONSTRAINT undo_pkey PRIMARY KEY (queue_id, action, seq),
    CONSTRAINT undo_body CHECK ((kind = 1) = (body IS NOT NULL)),
    CONSTRAINT undo_to CHECK ((kind = 3) = (to_queue_id IS NOT NULL AND to_seq IS NOT NULL)),
    CONSTRAINT undo_visible CHECK ((kind = 2) = (to_visible_at IS NOT NULL))
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
ALTER TABLE runlot_queue.undo ALTER COLUMN body SET STORAGE EXTERNAL;
COMMENT ON TABLE runlot_queue.undo IS 'What it takes to undo what operators did to messages of late: bounded in number, size and time.';
COMMENT ON COLUMN runlot_queue.undo.seq IS 'The seq that the message had in its queue.';
COMMENT ON COLUMN runlot_queue.undo.origin IS 'As it was in message before, like the columns after it.';
COMMENT ON COLUMN runlot_queue.undo.sent_at IS 'When the message was sent.';
COMMENT ON COLUMN runlot_queue.undo.visible_at IS 'When it was to be visible.';
COMMENT ON COLUMN runlot_queue.undo.source_id IS 'The queue that it came from as a dead letter.';
COMMENT ON COLUMN runlot_queue.undo.failures IS 'Its deliveries that had spent a retry.';
COMMENT ON COLUMN runlot_queue.undo.losses IS 'Its deliveries in a row in which the process had died.';
COMMENT ON COLUMN runlot_queue.undo.format IS 'The format of its body.';
COMMENT ON COLUMN runlot_queue.undo.reason IS 'Why its last delivery had failed.';
COMMENT ON COLUMN runlot_queue.undo.trace IS 'The span that sent it.';
COMMENT ON COLUMN runlot_queue.undo.noted_at IS 'When it was done.';
COMMENT ON COLUMN runlot_queue.undo.to_seq IS 'The seq that a message got in the queue that it was moved to.';
COMMENT ON COLUMN runlot_queue.undo.to_visible_at IS 'What a message that was made visible got as its visible_at.';
COMMENT ON COLUMN runlot_queue.undo.queue_id IS 'The queue in which it was done.';
COMMENT ON COLUMN runlot_queue.undo.to_queue_id IS 'The queue that a message was moved to.';
COMMENT ON COLUMN runlot_queue.undo.bytes IS 'The size of the body.';
COMMENT ON COLUMN runlot_queue.undo.kind IS '1 deleted, 2 made visible, 3 moved.';
COMMENT ON COLUMN runlot_queue.undo.action IS 'Names what an operator did, which may be many messages.';
COMMENT ON COLUMN runlot_queue.undo.body IS 'The body of a message that was deleted; the others have theirs.';
