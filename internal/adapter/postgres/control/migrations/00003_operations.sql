-- +goose Up

CREATE TABLE runlot_control.operation (
    id         bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    looked     bigint      NOT NULL DEFAULT 0,
    matched    bigint      NOT NULL DEFAULT 0,
    done       bigint      NOT NULL DEFAULT 0,
    rate       integer     NOT NULL CHECK (rate >= 0),
    kind       text        NOT NULL CHECK (kind IN ('redrive', 'delete', 'retry_now')),
    state      text        NOT NULL CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    database   text        NOT NULL,
    queue      text        NOT NULL,
    filter     text        NOT NULL,
    target     text        NOT NULL,
    author     text        NOT NULL,
    app        text        NOT NULL,
    place      text        NOT NULL DEFAULT '',
    error      text        NOT NULL DEFAULT '',
    ids        text[]      NOT NULL,
    skipped    jsonb       NOT NULL DEFAULT '{}',
    CONSTRAINT operation_end CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE INDEX operation_open ON runlot_control.operation (id) WHERE state = 'running';
COMMENT ON TABLE runlot_control.operation IS 'What is done in the background to many messages: those that run or wait, and the newest that ended.';
