-- name: Apps :many
SELECT a.name, a.created_at, a.live_version, a.live_since, v.number AS live_number
FROM runlot_control.app a
LEFT JOIN runlot_control.version v ON v.id = a.live_version
WHERE @app::text = '' OR a.name = @app
ORDER BY a.name;

-- name: AddApp :exec
INSERT INTO runlot_control.app (name, created_at) VALUES (@name, @created_at) ON CONFLICT (name) DO NOTHING;

-- name: LockApp :one
SELECT live_version FROM runlot_control.app WHERE name = @name FOR UPDATE;

-- name: DeleteApp :execrows
DELETE FROM runlot_control.app WHERE name = @name;

-- name: NextVersion :one
SELECT coalesce(max(number), 0)::integer + 1 FROM runlot_control.version WHERE app = @app;

-- name: AddVersion :exec
INSERT INTO runlot_control.version (id, created_at, open_until, number, service_worker, app, author, message, config_file, digest, manifest)
VALUES (@id, @created_at, sqlc.narg(open_until), @number, @service_worker, @app, @author, @message, @config_file, @digest, @manifest);

-- name: AmendVersion :execrows
UPDATE runlot_control.version SET digest = @digest, manifest = @manifest WHERE app = @app AND id = @id AND digest = @was;

-- name: AddVersionSecret :exec
INSERT INTO runlot_control.version_secret (version, name, sealed) VALUES (@version, @name, sqlc.narg(sealed));

-- name: VersionSecrets :many
SELECT name, sealed FROM runlot_control.version_secret WHERE version = @version ORDER BY name;

-- name: TakeVersionSecrets :many
DELETE FROM runlot_control.version_secret WHERE version = @version RETURNING name, sealed;

-- name: AddBlob :exec
INSERT INTO runlot_control.blob (digest, body) VALUES (@digest, @body) ON CONFLICT (digest) DO NOTHING;

-- name: AddModule :exec
INSERT INTO runlot_control.module (version, place, name, kind, blob) VALUES (@version, @place, @name, @kind, @blob);

-- name: Version :one
SELECT v.id, v.created_at, v.open_until, v.number, v.service_worker, v.app, v.author, v.message, v.config_file, v.digest, v.manifest,
       ((a.live_version = v.id) IS TRUE)::boolean AS live
FROM runlot_control.version v
JOIN runlot_control.app a ON a.name = v.app
WHERE v.app = @app AND v.id = @id;

-- name: Versions :many
SELECT v.id, v.created_at, v.open_until, v.number, v.service_worker, v.app, v.author, v.message, v.config_file, v.digest, v.manifest,
       ((a.live_version = v.id) IS TRUE)::boolean AS live
FROM runlot_control.version v
JOIN runlot_control.app a ON a.name = v.app
WHERE v.app = @app AND v.number < @before
ORDER BY v.number DESC
LIMIT @count;

-- name: Modules :many
SELECT m.name, m.kind, b.body
FROM runlot_control.module m
JOIN runlot_control.blob b ON b.digest = m.blob
WHERE m.version = @version
ORDER BY m.place;

-- name: PruneVersions :exec
-- The newest of an app stay, and so does the one that is live.
DELETE FROM runlot_control.version v
USING runlot_control.app a
WHERE v.app = @app AND a.name = v.app AND v.number <= @up_to AND v.id IS DISTINCT FROM a.live_version;

-- name: PruneBlobs :exec
DELETE FROM runlot_control.blob b WHERE NOT EXISTS (SELECT FROM runlot_control.module m WHERE m.blob = b.digest);

-- name: SetLive :exec
UPDATE runlot_control.app SET live_version = @version, live_since = @since WHERE name = @app;

-- name: NextDeployment :one
SELECT coalesce(max(number), 0)::integer + 1 FROM runlot_control.deployment WHERE app = @app;

-- name: AddDeployment :exec
INSERT INTO runlot_control.deployment (id, created_at, version, number, app, action, author, message)
VALUES (@id, @created_at, @version, @number, @app, @action, @author, @message);

-- name: Deployments :many
SELECT d.id, d.created_at, d.version, d.number, d.app, d.action, d.author, d.message, v.number AS version_number
FROM runlot_control.deployment d
JOIN runlot_control.version v ON v.id = d.version
WHERE d.app = @app AND d.number < @before
ORDER BY d.number DESC
LIMIT @count;

-- name: Secrets :many
SELECT name, updated_at, sealed FROM runlot_control.secret WHERE app = @app ORDER BY name;

-- name: PutSecret :exec
INSERT INTO runlot_control.secret (updated_at, app, name, sealed) VALUES (@updated_at, @app, @name, @sealed)
ON CONFLICT (app, name) DO UPDATE SET updated_at = excluded.updated_at, sealed = excluded.sealed;

-- name: DeleteSecret :execrows
DELETE FROM runlot_control.secret WHERE app = @app AND name = @name;

-- name: AddToken :exec
INSERT INTO runlot_control.token (created_at, expires_at, id, name, role, app, hash)
VALUES (@created_at, @expires_at, @id, @name, @role, @app, @hash);

-- name: Tokens :many
SELECT created_at, expires_at, used_at, id, name, role, app, hash FROM runlot_control.token ORDER BY created_at, id;

-- name: Token :one
SELECT created_at, expires_at, used_at, id, name, role, app, hash FROM runlot_control.token WHERE id = @id;

-- name: DeleteToken :execrows
DELETE FROM runlot_control.token WHERE id = @id;

-- name: UseToken :exec
UPDATE runlot_control.token SET used_at = @used_at WHERE id = @id AND (used_at IS NULL OR used_at < @used_at);

-- name: AddEvent :one
INSERT INTO runlot_control.event (at, kind, app, author, detail) VALUES (@at, @kind, @app, @author, @detail) RETURNING id;

-- name: Events :many
SELECT id, at, kind, app, author, detail
FROM runlot_control.event
WHERE id < @before AND (@app::text = '' OR app = @app)
ORDER BY id DESC
LIMIT @count;

-- name: PruneEvents :exec
DELETE FROM runlot_control.event WHERE id <= @up_to;

-- name: BeginReply :execrows
-- One that is too old makes way.
INSERT INTO runlot_control.reply AS r (key, digest, node, boot) VALUES (@key, @digest, @node, @boot)
ON CONFLICT (key) DO UPDATE SET began_at = excluded.began_at, status = NULL, digest = excluded.digest, answer = NULL, node = excluded.node, boot = excluded.boot
WHERE r.began_at < clock_timestamp() - @kept::interval;

-- name: Reply :one
SELECT digest, status, answer, node, boot FROM runlot_control.reply WHERE key = @key;

-- name: EndReply :exec
UPDATE runlot_control.reply SET status = @status, answer = @answer WHERE key = @key;

-- name: DropReply :exec
DELETE FROM runlot_control.reply WHERE key = @key;

-- name: PruneReplies :exec
DELETE FROM runlot_control.reply WHERE began_at < clock_timestamp() - @kept::interval
    OR began_at <= (SELECT b.began_at FROM runlot_control.reply b ORDER BY b.began_at DESC LIMIT 1 OFFSET @most::int);

-- name: Holder :one
SELECT pid, backend_start, since, node FROM runlot_control.holder;

-- name: BecomeHolder :exec
INSERT INTO runlot_control.holder (pid, backend_start, node)
SELECT a.pid, a.backend_start, @node FROM pg_catalog.pg_stat_activity a WHERE a.pid = pg_backend_pid()
ON CONFLICT (singleton) DO UPDATE SET pid = excluded.pid, backend_start = excluded.backend_start, since = clock_timestamp(), node = excluded.node;

-- name: EndHolder :many
-- Ends the session of a holder and waits up to five seconds for it.
SELECT pg_terminate_backend(a.pid, 5000) AS gone
FROM pg_catalog.pg_stat_activity a WHERE a.pid = @pid AND a.backend_start = @backend_start;

-- name: AddOperation :one
INSERT INTO runlot_control.operation (created_at, rate, kind, state, database, queue, filter, target, author, app, ids)
VALUES (@created_at, @rate, @kind, @state, @database, @queue, @filter, @target, @author, @app, @ids)
RETURNING id;

-- name: SaveOperation :exec
UPDATE runlot_control.operation
SET ended_at = @ended_at, looked = @looked, matched = @matched, done = @done, state = @state, place = @place, error = @error, skipped = @skipped
WHERE id = @id;

-- name: PruneOperations :exec
DELETE FROM runlot_control.operation
WHERE state <> 'running' AND id <= (SELECT o.id FROM runlot_control.operation o WHERE o.state <> 'running' ORDER BY o.id DESC LIMIT 1 OFFSET @keep::int);

-- name: Operation :one
SELECT * FROM runlot_control.operation WHERE id = @id;

-- name: Operations :many
SELECT * FROM runlot_control.operation
WHERE id < @before AND (@database::text = '' OR database = @database) AND (@queue::text = '' OR queue = @queue)
ORDER BY id DESC
LIMIT @count;

-- name: OpenOperations :many
SELECT * FROM runlot_control.operation WHERE state = 'running' ORDER BY id;

-- name: VersionNumber :one
SELECT number FROM runlot_control.version WHERE app = @app AND id = @id;

-- name: AddNotice :one
INSERT INTO runlot_control.notice (day, rule, subject, body) VALUES (@day, @rule, @subject, @body)
ON CONFLICT (rule, subject, day) DO NOTHING RETURNING id;

-- name: AddNoticeWays :exec
INSERT INTO runlot_control.notice_way (due_at, notice, way) SELECT clock_timestamp(), @notice, unnest(@ways::text[]);

-- name: PruneNotices :exec
DELETE FROM runlot_control.notice
WHERE id <= (SELECT n.id FROM runlot_control.notice n ORDER BY n.id DESC OFFSET @keep::integer LIMIT 1);

-- name: ExpireNotices :exec
-- What nobody has tried for so long is for a receiver that no node knows any more.
UPDATE runlot_control.notice_way SET state = 'failed', due_at = NULL, problem = @problem
WHERE state = 'waiting' AND due_at < clock_timestamp() - make_interval(secs => @age::double precision);

-- name: ClaimNotice :one
UPDATE runlot_control.notice_way w
SET due_at = clock_timestamp() + make_interval(secs => @lease::double precision), attempts = w.attempts + 1
FROM runlot_control.notice n
WHERE n.id = w.notice AND (w.notice, w.way) = (
    SELECT c.notice, c.way FROM runlot_control.notice_way c
    WHERE c.state = 'waiting' AND c.due_at <= clock_timestamp() AND c.way = ANY (@ways::text[])
    ORDER BY c.due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING w.notice, w.way, w.attempts, n.body, extract(epoch FROM clock_timestamp() - n.added_at)::double precision AS age;

-- name: NextNotice :one
SELECT coalesce(extract(epoch FROM min(due_at) - clock_timestamp()), 0)::double precision AS seconds
FROM runlot_control.notice_way
WHERE state = 'waiting' AND way = ANY (@ways::text[]);

-- name: SettleNotice :exec
-- A claim that is not the last one changes nothing.
UPDATE runlot_control.notice_way
SET state = @state, problem = @problem,
    due_at = CASE WHEN @state::text = 'waiting' THEN clock_timestamp() + make_interval(secs => @after::double precision) END,
    sent_at = CASE WHEN @state::text = 'sent' THEN clock_timestamp() END
WHERE notice = @notice AND way = @way AND attempts = @attempt AND state = 'waiting';

-- name: Notices :many
SELECT id, body FROM runlot_control.notice WHERE id < @before ORDER BY id DESC LIMIT @count;

-- name: NoticeWays :many
SELECT notice, way, state, attempts, problem, due_at, sent_at
FROM runlot_control.notice_way
WHERE notice = ANY (@notices::bigint[])
ORDER BY notice, way;
