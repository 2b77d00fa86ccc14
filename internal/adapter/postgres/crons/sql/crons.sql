-- name: DeclareApp :exec
INSERT INTO runlot_queue.scheduler (app) VALUES (@app) ON CONFLICT (app) DO NOTHING;

-- name: Declare :exec
INSERT INTO runlot_queue.cron (app, cron)
SELECT @app::text, n FROM unnest(@crons::text[]) AS n
ON CONFLICT (app, cron) DO NOTHING;

-- name: Forget :exec
DELETE FROM runlot_queue.cron WHERE app = @app AND cron = ANY(@crons::text[]);

-- name: Scheduler :one
SELECT clock_timestamp()::timestamptz AS now, coalesce(max(fence), 0)::bigint AS fence, coalesce(max(beat), 0)::bigint AS beat,
    coalesce(bool_or(running), false)::boolean AS running
FROM runlot_queue.scheduler WHERE app = @app;

-- name: Crons :many
SELECT cron, since, occurrence, try_at, began_at, attempt, missed, phase, node
FROM runlot_queue.cron WHERE app = @app ORDER BY cron;

-- name: Claim :one
UPDATE runlot_queue.scheduler SET fence = fence + 1, running = true
WHERE app = @app AND fence = @fence AND beat = @beat
RETURNING fence;

-- name: Begin :execrows
UPDATE runlot_queue.cron
SET occurrence = @occurrence, attempt = @attempt, missed = @missed, phase = 'running', try_at = NULL, began_at = clock_timestamp(), node = @node
WHERE app = @app AND cron = @cron;

-- name: Renew :execrows
UPDATE runlot_queue.scheduler SET beat = beat + 1
WHERE app = @app AND fence = @fence AND running;

-- name: Finish :execrows
UPDATE runlot_queue.scheduler SET fence = fence + 1, running = false
WHERE app = @app AND fence = @fence AND running;

-- name: End :exec
UPDATE runlot_queue.cron
SET attempt = @attempt, try_at = sqlc.narg(try_at), phase = CASE WHEN sqlc.narg(try_at)::timestamptz IS NULL THEN 'done' ELSE 'waiting' END
WHERE app = @app AND cron = @cron;

-- name: Keep :exec
INSERT INTO runlot_queue.run (occurrence, started_at, retry_at, duration_us, attempt, missed, manual, outcome, app, cron, version, node, reason,
    error_name, error_message, error_location, error_stack)
VALUES (@occurrence, @started_at, sqlc.narg(retry_at), @duration_us, @attempt, @missed, @manual, @outcome, @app, @cron, @version, @node, @reason,
    sqlc.narg(error_name), sqlc.narg(error_message), sqlc.narg(error_location), sqlc.narg(error_stack));

-- name: PruneMany :exec
-- Deletes the oldest runs of a cron beyond the number that is kept.
DELETE FROM runlot_queue.run WHERE id IN (
    SELECT r.id FROM runlot_queue.run r
    WHERE r.app = @app AND r.cron = @cron AND r.id <= (
        SELECT b.id FROM runlot_queue.run b WHERE b.app = @app AND b.cron = @cron ORDER BY b.id DESC LIMIT 1 OFFSET @kept::int)
    ORDER BY r.id LIMIT @step::int);

-- name: PruneOld :exec
-- Looks at the oldest rows only: they were written in the order of their ids.
DELETE FROM runlot_queue.run WHERE id IN (
    SELECT o.id FROM (SELECT r.id, r.kept_at FROM runlot_queue.run r ORDER BY r.id LIMIT @step::int) o
    WHERE o.kept_at < clock_timestamp() - @retention::interval);
