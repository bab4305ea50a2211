-- The account of the person to whom a key belongs: its requests are the person's. Empty for others.
ALTER TABLE keys ADD COLUMN owner TEXT NOT NULL DEFAULT '';
DROP INDEX CONCURRENTLY IF EXISTS keys_owner;
CREATE INDEX CONCURRENTLY keys_owner ON keys (owner, id) WHERE owner <> '';
