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

-- name: Runs :many
SELECT * FROM runlot_queue.run
WHERE app = @app AND (sqlc.narg(cron)::text IS NULL OR cron = sqlc.narg(cron)) AND (cardinality(@outcomes::text[]) = 0 OR outcome = ANY(@outcomes::text[]))
    AND (@before::bigint = 0 OR id < @before)
ORDER BY id DESC LIMIT @count::int;

-- name: LastRuns :many
-- The newest run of each cron.
SELECT * FROM runlot_queue.run WHERE id IN (
    SELECT (SELECT max(l.id) FROM runlot_queue.run l WHERE l.app = @app AND l.cron = c) FROM unnest(@crons::text[]) c);

-- name: Failing :many
-- When the crons that fail began to: the first of their runs that went wrong after the last that did not.
WITH good AS (
    SELECT g.cron, max(g.id) AS id FROM runlot_queue.run g
    WHERE g.app = @app AND g.cron = ANY(@crons::text[]) AND NOT g.manual AND g.outcome = 'ok' GROUP BY g.cron)
SELECT r.cron, min(r.started_at)::timestamptz AS since
FROM runlot_queue.run r LEFT JOIN good ON good.cron = r.cron
WHERE r.app = @app AND r.cron = ANY(@crons::text[]) AND NOT r.manual AND r.outcome IN ('failed', 'timeout', 'lost', 'error') AND r.id > coalesce(good.id, 0)
GROUP BY r.cron;
