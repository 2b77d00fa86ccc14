-- +goose Up

CREATE TABLE runlot_queue.watched (
    queue_id integer NOT NULL PRIMARY KEY REFERENCES runlot_queue.queue ON DELETE CASCADE
);
COMMENT ON TABLE runlot_queue.watched IS 'The queues whose dead letters leave a note, since an event subscription asks for them.';
COMMENT ON COLUMN runlot_queue.watched.queue_id IS 'A queue whose consumer may run out of retries.';

CREATE TABLE runlot_queue.died (
    number    bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    origin    bigint      NOT NULL,
    sent_at   timestamptz NOT NULL,
    died_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue_id  integer     NOT NULL,
    target_id integer     NOT NULL,
    attempts  integer     NOT NULL,
    reason    text
);
COMMENT ON TABLE runlot_queue.died IS 'Notes of dead letters, written with the move and deleted when their events are stored.';
COMMENT ON COLUMN runlot_queue.died.number IS 'The order of the notes.';
COMMENT ON COLUMN runlot_queue.died.origin IS 'The seq under which the message was first accepted: its id.';
COMMENT ON COLUMN runlot_queue.died.sent_at IS 'When it was sent.';
COMMENT ON COLUMN runlot_queue.died.died_at IS 'When it was moved.';
COMMENT ON COLUMN runlot_queue.died.queue_id IS 'The queue whose consumer ran out of retries for it.';
COMMENT ON COLUMN runlot_queue.died.target_id IS 'The queue that it went to.';
COMMENT ON COLUMN runlot_queue.died.attempts IS 'Deliveries that failed.';
COMMENT ON COLUMN runlot_queue.died.reason IS 'Why the last one failed, where that is known.';
