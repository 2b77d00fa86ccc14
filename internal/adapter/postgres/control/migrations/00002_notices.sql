-- +goose Up

CREATE TABLE runlot_control.notice (
    id       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    day      date        NOT NULL,
    rule     text        NOT NULL,
    subject  text        NOT NULL,
    body     jsonb       NOT NULL,
    UNIQUE (rule, subject, day)
);
COMMENT ON TABLE runlot_control.notice IS 'What operators are told, once for each rule, subject and day in UTC. The newest are kept.';

CREATE TABLE runlot_control.notice_way (
    due_at   timestamptz,
    sent_at  timestamptz,
    notice   bigint      NOT NULL REFERENCES runlot_control.notice ON DELETE CASCADE,
    attempts integer     NOT NULL DEFAULT 0,
    way      text        NOT NULL,
    state    text        NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'failed')),
    problem  text        NOT NULL DEFAULT '',
    PRIMARY KEY (notice, way),
    CONSTRAINT notice_way_due CHECK ((state = 'waiting') = (due_at IS NOT NULL))
);
CREATE INDEX notice_way_due ON runlot_control.notice_way (due_at) WHERE state = 'waiting';
COMMENT ON TABLE runlot_control.notice_way IS 'What became of a notice on each way. Whoever sends it moves due_at ahead, so that nobody else does.';
