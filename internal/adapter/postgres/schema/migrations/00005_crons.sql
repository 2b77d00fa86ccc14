-- +goose Up

CREATE TABLE runlot_queue.scheduler (
    fence   bigint  NOT NULL DEFAULT 0 CHECK (fence >= 0),
    beat    bigint  NOT NULL DEFAULT 0 CHECK (beat >= 0),
    running boolean NOT NULL DEFAULT false,
    app     text    NOT NULL PRIMARY KEY
);
COMMENT ON TABLE runlot_queue.scheduler IS 'One row for each app with crons: whether a run is under way, so that there is one at a time on all nodes.';
COMMENT ON COLUMN runlot_queue.scheduler.fence IS 'Counts the beginnings and ends of runs. Who claims one compares it, who ends one owns it.';
COMMENT ON COLUMN runlot_queue.scheduler.beat IS 'Signs of life of the run under way. One that stands still lets another node take over.';
COMMENT ON COLUMN runlot_queue.scheduler.running IS 'A run is under way, or was when its node died.';
COMMENT ON COLUMN runlot_queue.scheduler.app IS 'The app.';

CREATE TABLE runlot_queue.cron (
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    occurrence timestamptz,
    try_at     timestamptz,
    began_at   timestamptz,
    attempt    integer     NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    missed     integer     NOT NULL DEFAULT 0 CHECK (missed >= 0),
    phase      text        NOT NULL DEFAULT 'done' CHECK (phase IN ('done', 'waiting', 'running')),
    node       text        NOT NULL DEFAULT '',
    app        text        NOT NULL,
    cron       text        NOT NULL CHECK (octet_length(cron) <= 256),
    CONSTRAINT cron_pkey PRIMARY KEY (app, cron),
    CONSTRAINT cron_waits CHECK ((phase = 'waiting') = (try_at IS NOT NULL)),
    CONSTRAINT cron_began CHECK (phase = 'done' OR (occurrence IS NOT NULL AND began_at IS NOT NULL))
);
COMMENT ON TABLE runlot_queue.cron IS 'The crons of the live versions of apps, and the last occurrence of each that was claimed.';
COMMENT ON COLUMN runlot_queue.cron.since IS 'When it was declared: earlier occurrences are none of its.';
COMMENT ON COLUMN runlot_queue.cron.occurrence IS 'The last occurrence that was claimed; null before the first.';
COMMENT ON COLUMN runlot_queue.cron.try_at IS 'When it is tried again, while waiting.';
COMMENT ON COLUMN runlot_queue.cron.began_at IS 'When its last run began.';
COMMENT ON COLUMN runlot_queue.cron.attempt IS 'Runs of this occurrence.';
COMMENT ON COLUMN runlot_queue.cron.missed IS 'Occurrences before it that were not run.';
COMMENT ON COLUMN runlot_queue.cron.phase IS 'done; waiting to be tried again; running, or was when its node died.';
COMMENT ON COLUMN runlot_queue.cron.node IS 'The node that ran it last.';
COMMENT ON COLUMN runlot_queue.cron.app IS 'The app.';
COMMENT ON COLUMN runlot_queue.cron.cron IS 'The expression, as the app''s configuration has it.';

CREATE TABLE runlot_queue.run (
    id             bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    occurrence     timestamptz NOT NULL,
    started_at     timestamptz NOT NULL,
    kept_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    retry_at       timestamptz,
    duration_us    bigint      NOT NULL CHECK (duration_us >= 0),
    attempt        integer     NOT NULL CHECK (attempt >= 0),
    missed         integer     NOT NULL CHECK (missed >= 0),
    manual         boolean     NOT NULL,
    outcome        text        NOT NULL CHECK (outcome IN ('ok', 'failed', 'timeout', 'lost', 'error', 'missed')),
    app            text        NOT NULL,
    cron           text        NOT NULL,
    version        text        NOT NULL,
    node           text        NOT NULL,
    reason         text        NOT NULL,
    error_name     text,
    error_message  text,
    error_location text,
    error_stack    text
);
CREATE INDEX run_of_cron ON runlot_queue.run (app, cron, id);
COMMENT ON TABLE runlot_queue.run IS 'How scheduled runs ended: of each cron the last 10,000, for 7 days.';
COMMENT ON COLUMN runlot_queue.run.occurrence IS 'The time that the handler was told.';
COMMENT ON COLUMN runlot_queue.run.started_at IS 'When the run began, by the clock of its node.';
COMMENT ON COLUMN runlot_queue.run.kept_at IS 'When this row was written.';
COMMENT ON COLUMN runlot_queue.run.retry_at IS 'When the occurrence is tried again; null when it is not.';
COMMENT ON COLUMN runlot_queue.run.duration_us IS 'How long the handler took, in microseconds.';
COMMENT ON COLUMN runlot_queue.run.attempt IS 'Which run of the occurrence, from 1; 0 of one that was missed.';
COMMENT ON COLUMN runlot_queue.run.missed IS 'Occurrences before it that were not run.';
COMMENT ON COLUMN runlot_queue.run.manual IS 'A person asked for it.';
COMMENT ON COLUMN runlot_queue.run.outcome IS 'ok, failed, timeout, lost, error or missed.';
COMMENT ON COLUMN runlot_queue.run.app IS 'The app.';
COMMENT ON COLUMN runlot_queue.run.cron IS 'The expression.';
COMMENT ON COLUMN runlot_queue.run.version IS 'The version that ran.';
COMMENT ON COLUMN runlot_queue.run.node IS 'The node that ran it.';
COMMENT ON COLUMN runlot_queue.run.reason IS 'Why it did not run or end, for a person.';
COMMENT ON COLUMN runlot_queue.run.error_name IS 'What the handler threw; null when nothing.';
COMMENT ON COLUMN runlot_queue.run.error_message IS 'Its message.';
COMMENT ON COLUMN runlot_queue.run.error_location IS 'File, line and column of it.';
COMMENT ON COLUMN runlot_queue.run.error_stack IS 'Its stack.';
