-- +goose Up
ALTER TABLE runlot_queue.message ADD COLUMN trace bytea
    CONSTRAINT message_trace CHECK (octet_length(trace) = 25);
COMMENT ON COLUMN runlot_queue.message.trace IS 'The span that sent it, where traces are kept: 16 bytes of trace id, 8 of span id, flags.';
