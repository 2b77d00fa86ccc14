-- +goose Up

CREATE TABLE runlot_control.subscription (
    created_at      timestamptz NOT NULL,
    modified_at     timestamptz NOT NULL,
    id              uuid        NOT NULL PRIMARY KEY,
    enabled         boolean     NOT NULL,
    name            text        NOT NULL,
    source          text        NOT NULL,
    script          text        NOT NULL,
    source_database text        NOT NULL,
    source_queue    text        NOT NULL,
    target_database text        NOT NULL,
    target_queue    text        NOT NULL,
    events          text[]      NOT NULL CHECK (cardinality(events) > 0)
);
COMMENT ON TABLE runlot_control.subscription IS 'Which events are told to which queue.';
COMMENT ON COLUMN runlot_control.subscription.created_at IS 'When it was made.';
COMMENT ON COLUMN runlot_control.subscription.modified_at IS 'When it was changed last.';
COMMENT ON COLUMN runlot_control.subscription.id IS 'A UUID that sorts by time.';
COMMENT ON COLUMN runlot_control.subscription.enabled IS 'Whether events are kept for it.';
COMMENT ON COLUMN runlot_control.subscription.name IS 'For a person.';
COMMENT ON COLUMN runlot_control.subscription.source IS 'The type of its source: workers.script, workersBuilds.worker, queues.queue.';
COMMENT ON COLUMN runlot_control.subscription.script IS 'The script that it is about; empty for any, and for queues.';
COMMENT ON COLUMN runlot_control.subscription.source_database IS 'The database of the queue whose dead letters it is about; empty for scripts.';
COMMENT ON COLUMN runlot_control.subscription.source_queue IS 'That queue; empty for scripts.';
COMMENT ON COLUMN runlot_control.subscription.target_database IS 'The database of the queue that is told.';
COMMENT ON COLUMN runlot_control.subscription.target_queue IS 'The queue that is told.';
COMMENT ON COLUMN runlot_control.subscription.events IS 'The events that it is for.';

CREATE TABLE runlot_control.subscription_event (
    seq          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL,
    subscription uuid        NOT NULL REFERENCES runlot_control.subscription ON DELETE CASCADE,
    kind         text        NOT NULL,
    payload      json        NOT NULL
);
CREATE INDEX subscription_event_waiting ON runlot_control.subscription_event (subscription, seq);
CREATE INDEX subscription_event_at ON runlot_control.subscription_event (at);
COMMENT ON TABLE runlot_control.subscription_event IS 'Events that are still to be sent, written with the facts that they tell of.';
COMMENT ON COLUMN runlot_control.subscription_event.seq IS 'The order in which they are sent.';
COMMENT ON COLUMN runlot_control.subscription_event.at IS 'When it happened.';
COMMENT ON COLUMN runlot_control.subscription_event.subscription IS 'The subscription that is told.';
COMMENT ON COLUMN runlot_control.subscription_event.kind IS 'The event.';
COMMENT ON COLUMN runlot_control.subscription_event.payload IS 'What there is to know of it, as it goes into the message.';
