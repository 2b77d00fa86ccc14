-- Who gets a digest, and which digests were made. A digest is made once for each user and slot.
CREATE TABLE users (
  id INTEGER PRIMARY KEY,
  email TEXT NOT NULL UNIQUE
);

CREATE TABLE digests (
  message_id TEXT PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users (id),
  slot INTEGER NOT NULL,
  UNIQUE (user_id, slot)
);
