-- +goose Up

CREATE TABLE runlot_control.reply (
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status   integer CHECK (status BETWEEN 100 AND 599),
    key      bytea       NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),
    digest   bytea       NOT NULL CHECK (octet_length(digest) = 32),
    answer   bytea,
    node     text        NOT NULL,
    boot     text        NOT NULL
);
CREATE INDEX reply_began ON runlot_control.reply (began_at);
COMMENT ON TABLE runlot_control.reply IS 'Answers to calls of the API with an idempotency key, for a day.';
COMMENT ON COLUMN runlot_control.reply.began_at IS 'When the call began.';
COMMENT ON COLUMN runlot_control.reply.status IS 'The HTTP status; null while the call is under way, or when celld ended under it.';
COMMENT ON COLUMN runlot_control.reply.key IS 'SHA-256 of the id of the token and of the key.';
COMMENT ON COLUMN runlot_control.reply.digest IS 'SHA-256 of what was asked.';
COMMENT ON COLUMN runlot_control.reply.answer IS 'The answer, sealed with the key of the secrets; null when it was too large.';
COMMENT ON COLUMN runlot_control.reply.node IS 'The celld that carries the call out.';
COMMENT ON COLUMN runlot_control.reply.boot IS 'Which run of it.';

CREATE TABLE runlot_control.holder (
    singleton     boolean     NOT NULL PRIMARY KEY DEFAULT true CHECK (singleton),
    pid           integer     NOT NULL,
    backend_start timestamptz NOT NULL,
    since         timestamptz NOT NULL DEFAULT clock_timestamp(),
    node          text        NOT NULL
);
COMMENT ON TABLE runlot_control.holder IS 'One row: which celld uses these records, or used them last. The use itself is a session advisory lock.';
COMMENT ON COLUMN runlot_control.holder.pid IS 'Its session.';
COMMENT ON COLUMN runlot_control.holder.backend_start IS 'When that began, which tells it from a later one of the same number.';
COMMENT ON COLUMN runlot_control.holder.since IS 'Since when it uses them.';
COMMENT ON COLUMN runlot_control.holder.node IS 'Its host and its data folder.';
