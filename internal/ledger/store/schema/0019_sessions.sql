-- The key or the account to which a session belongs, so that each has a bounded number of them. Empty for others.
ALTER TABLE sign_ins ADD COLUMN owner TEXT NOT NULL DEFAULT '';
DROP INDEX CONCURRENTLY IF EXISTS sign_ins_owner;
CREATE INDEX CONCURRENTLY sign_ins_owner ON sign_ins (owner, expires) WHERE owner <> '';
