-- +goose Up

CREATE SCHEMA IF NOT EXISTS runlot_control;
COMMENT ON SCHEMA runlot_control IS 'What celld knows of its apps: versions, deployments, secrets and tokens. Messages are in runlot_queue.';

CREATE TABLE runlot_control.app (
    name         text        NOT NULL PRIMARY KEY CHECK (name <> ''),
    created_at   timestamptz NOT NULL,
    live_version uuid,
    live_since   timestamptz,
    CONSTRAINT app_live CHECK ((live_version IS NULL) = (live_since IS NULL))
);
COMMENT ON TABLE runlot_control.app IS 'The apps. live_version is the one row that says what serves.';

CREATE TABLE runlot_control.version (
    id             uuid        NOT NULL PRIMARY KEY,
    created_at     timestamptz NOT NULL,
    number         integer     NOT NULL CHECK (number > 0),
    service_worker boolean     NOT NULL,
    app            text        NOT NULL REFERENCES runlot_control.app ON DELETE CASCADE,
    author         text        NOT NULL,
    message        text        NOT NULL,
    config_file    text        NOT NULL,
    digest         text        NOT NULL,
    manifest       jsonb       NOT NULL,
    UNIQUE (app, number)
);
COMMENT ON TABLE runlot_control.version IS 'Uploads of apps. A row never changes.';

ALTER TABLE runlot_control.app ADD CONSTRAINT app_live_version
    FOREIGN KEY (live_version) REFERENCES runlot_control.version DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE runlot_control.blob (
    digest bytea NOT NULL PRIMARY KEY CHECK (octet_length(digest) = 32),
    body   bytea NOT NULL
);
COMMENT ON TABLE runlot_control.blob IS 'Contents of modules, each once, by SHA-256.';

CREATE TABLE runlot_control.module (
    version uuid    NOT NULL REFERENCES runlot_control.version ON DELETE CASCADE,
    place   integer NOT NULL,
    name    text    NOT NULL,
    kind    text    NOT NULL,
    blob    bytea   NOT NULL REFERENCES runlot_control.blob,
    PRIMARY KEY (version, place)
);
CREATE INDEX module_blob ON runlot_control.module (blob);
COMMENT ON TABLE runlot_control.module IS 'The modules of a version; place 0 is the main module. The kind sourceMap is the map of the main module.';

CREATE TABLE runlot_control.deployment (
    id         uuid        NOT NULL PRIMARY KEY,
    created_at timestamptz NOT NULL,
    version    uuid        NOT NULL REFERENCES runlot_control.version ON DELETE CASCADE,
    number     integer     NOT NULL CHECK (number > 0),
    app        text        NOT NULL REFERENCES runlot_control.app ON DELETE CASCADE,
    action     text        NOT NULL CHECK (action IN ('deploy', 'rollback')),
    author     text        NOT NULL,
    message    text        NOT NULL,
    UNIQUE (app, number)
);
CREATE INDEX deployment_version ON runlot_control.deployment (version);
COMMENT ON TABLE runlot_control.deployment IS 'Which version became live when, and by whom.';

CREATE TABLE runlot_control.secret (
    updated_at timestamptz NOT NULL,
    app        text        NOT NULL REFERENCES runlot_control.app ON DELETE CASCADE,
    name       text        NOT NULL,
    sealed     bytea       NOT NULL,
    PRIMARY KEY (app, name)
);
COMMENT ON TABLE runlot_control.secret IS 'Secrets of apps, encrypted with a key that is not in the database.';

CREATE TABLE runlot_control.token (
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    used_at    timestamptz,
    id         text        NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    role       text        NOT NULL CHECK (role IN ('admin', 'deploy', 'read')),
    app        text,
    hash       bytea       NOT NULL CHECK (octet_length(hash) = 32)
);
COMMENT ON TABLE runlot_control.token IS 'API tokens, hashed. A token with an app opens that app only.';

CREATE TABLE runlot_control.event (
    id     bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL,
    kind   text        NOT NULL,
    app    text        NOT NULL,
    author text        NOT NULL,
    detail jsonb       NOT NULL
);
CREATE INDEX event_app ON runlot_control.event (app, id);
COMMENT ON TABLE runlot_control.event IS 'What was done, by whom. The newest are kept.';
