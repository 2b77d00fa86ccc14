-- +goose Up

ALTER TABLE runlot_control.version ADD COLUMN open_until timestamptz;
COMMENT ON TABLE runlot_control.version IS 'Uploads of apps. A row never changes, but for what is declared while it is open.';
COMMENT ON COLUMN runlot_control.version.open_until IS
    'Until when crons and consumers that its author sets by calls of their own belong to this version; null when they make another one.';

CREATE TABLE runlot_control.version_secret (
    version uuid NOT NULL REFERENCES runlot_control.version ON DELETE CASCADE,
    name    text NOT NULL,
    sealed  bytea,
    PRIMARY KEY (version, name)
);
COMMENT ON TABLE runlot_control.version_secret IS 'What a version that was not live yet changes of the secrets of its app, once it becomes live.';
COMMENT ON COLUMN runlot_control.version_secret.sealed IS 'The secret, encrypted like those in use; null when it is deleted.';
