-- +goose Up

ALTER TABLE runlot_queue.queue
    ADD COLUMN delivery_delay interval CHECK (delivery_delay > interval '0'),
    ADD COLUMN pull           jsonb;
COMMENT ON COLUMN runlot_queue.queue.delivery_delay IS 'The delay of messages that are sent without one; null is none. runlot_queue.send() names its own.';
COMMENT ON COLUMN runlot_queue.queue.pull IS 'The settings of its consumer over HTTP, where an operator gave it one.';
