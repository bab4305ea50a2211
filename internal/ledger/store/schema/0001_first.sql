-- One file for both databases: types and clauses that SQLite and PostgreSQL both know.
-- Times are nanoseconds since 1970 (0: none), money is billionths of a dollar,
-- hours are hours since 1970. A statement ends with a semicolon at the end of a line.

CREATE TABLE revision (
  one      BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
  revision BIGINT NOT NULL, -- the last one that was given out
  keys     BIGINT NOT NULL  -- how many keys there are; see DESIGN.md
);

CREATE TABLE orgs (
  id                TEXT    NOT NULL PRIMARY KEY,
  name              TEXT    NOT NULL,
  blocked           BOOLEAN NOT NULL,
  created           BIGINT  NOT NULL,
  limit_requests    BIGINT  NOT NULL CHECK (limit_requests >= 0),
  limit_tokens      BIGINT  NOT NULL CHECK (limit_tokens >= 0),
  limit_concurrency BIGINT  NOT NULL CHECK (limit_concurrency >= 0),
  budget            BIGINT  NOT NULL CHECK (budget >= 0),
  budget_window     BIGINT  NOT NULL CHECK (budget_window >= 0),
  base              BIGINT  NOT NULL, -- its last change took the revisions after base, up to top
  top               BIGINT  NOT NULL
);
CREATE INDEX orgs_top ON orgs (top);

CREATE TABLE teams (
  org               TEXT    NOT NULL REFERENCES orgs (id),
  id                TEXT    NOT NULL,
  name              TEXT    NOT NULL,
  blocked           BOOLEAN NOT NULL,
  created           BIGINT  NOT NULL,
  limit_requests    BIGINT  NOT NULL CHECK (limit_requests >= 0),
  limit_tokens      BIGINT  NOT NULL CHECK (limit_tokens >= 0),
  limit_concurrency BIGINT  NOT NULL CHECK (limit_concurrency >= 0),
  budget            BIGINT  NOT NULL CHECK (budget >= 0),
  budget_window     BIGINT  NOT NULL CHECK (budget_window >= 0),
  base              BIGINT  NOT NULL,
  top               BIGINT  NOT NULL,
  PRIMARY KEY (org, id)
);
CREATE INDEX teams_top ON teams (top);

CREATE TABLE keys (
  id                TEXT   NOT NULL PRIMARY KEY,
  seq               BIGINT NOT NULL UNIQUE, -- the how-manieth key it is
  revision          BIGINT NOT NULL UNIQUE,
  name              TEXT   NOT NULL,
  org               TEXT   NOT NULL REFERENCES orgs (id),
  team              TEXT,
  role              TEXT   NOT NULL,
  created           BIGINT NOT NULL,
  expires           BIGINT NOT NULL,
  revoked           BIGINT NOT NULL,
  models            TEXT   NOT NULL, -- this and the next two: JSON arrays
  endpoints         TEXT   NOT NULL,
  networks          TEXT   NOT NULL,
  criticality       TEXT   NOT NULL,
  pepper            BIGINT NOT NULL, -- the digest of the secret
  digest            BYTEA  NOT NULL,
  until             BIGINT NOT NULL,
  old_pepper        BIGINT NOT NULL, -- and of the one before it, while it is rotated
  old_digest        BYTEA,
  old_until         BIGINT NOT NULL,
  limit_requests    BIGINT NOT NULL CHECK (limit_requests >= 0),
  limit_tokens      BIGINT NOT NULL CHECK (limit_tokens >= 0),
  limit_concurrency BIGINT NOT NULL CHECK (limit_concurrency >= 0),
  budget            BIGINT NOT NULL CHECK (budget >= 0),
  budget_window     BIGINT NOT NULL CHECK (budget_window >= 0),
  FOREIGN KEY (org, team) REFERENCES teams (org, id)
);
CREATE INDEX keys_org ON keys (org, seq);
CREATE INDEX keys_team ON keys (org, team, seq);

-- The ledger. No foreign keys: a row is true whatever becomes of its key.
CREATE TABLE requests (
  id          TEXT    NOT NULL PRIMARY KEY,
  began       BIGINT  NOT NULL,
  took        BIGINT  NOT NULL,
  input       BIGINT  NOT NULL CHECK (input >= 0),
  cache_read  BIGINT  NOT NULL CHECK (cache_read >= 0),
  cache_write BIGINT  NOT NULL CHECK (cache_write >= 0),
  output      BIGINT  NOT NULL CHECK (output >= 0),
  reasoning   BIGINT  NOT NULL CHECK (reasoning >= 0),
  cost        BIGINT  CHECK (cost >= 0), -- NULL: not known
  status      INTEGER NOT NULL,
  stream      BOOLEAN NOT NULL,
  estimated   BOOLEAN NOT NULL,
  node        TEXT    NOT NULL,
  key_id      TEXT    NOT NULL,
  team        TEXT    NOT NULL,
  org         TEXT    NOT NULL,
  endpoint    TEXT    NOT NULL,
  dialect     TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  target      TEXT    NOT NULL,
  outcome     TEXT    NOT NULL
);
CREATE INDEX requests_began ON requests (began);
CREATE INDEX requests_key ON requests (key_id, began);

CREATE TABLE attempts (
  request_id  TEXT    NOT NULL,
  n           INTEGER NOT NULL,
  began       BIGINT  NOT NULL,
  took        BIGINT  NOT NULL,
  input       BIGINT  NOT NULL CHECK (input >= 0),
  cache_read  BIGINT  NOT NULL CHECK (cache_read >= 0),
  cache_write BIGINT  NOT NULL CHECK (cache_write >= 0),
  output      BIGINT  NOT NULL CHECK (output >= 0),
  reasoning   BIGINT  NOT NULL CHECK (reasoning >= 0),
  cost        BIGINT  CHECK (cost >= 0),
  status      INTEGER NOT NULL,
  charged     BOOLEAN NOT NULL,
  target      TEXT    NOT NULL,
  fault       TEXT    NOT NULL,
  PRIMARY KEY (request_id, n)
);

-- Sums of the ledger, written in the same transaction as its rows.
CREATE TABLE spent (
  account  TEXT   NOT NULL, -- as quota has it: key:ID, team:ORG/TEAM, org:ORG
  hour     BIGINT NOT NULL,
  requests BIGINT NOT NULL,
  unknown  BIGINT NOT NULL, -- requests of which the cost is not known
  cost     BIGINT NOT NULL CHECK (cost >= 0),
  PRIMARY KEY (account, hour)
);

CREATE TABLE spent_minutes ( -- of teams and organisations, for the part of an hour
  account TEXT   NOT NULL,
  minute  BIGINT NOT NULL,
  cost    BIGINT NOT NULL CHECK (cost >= 0),
  PRIMARY KEY (account, minute)
);

CREATE TABLE hours (
  org         TEXT   NOT NULL,
  hour        BIGINT NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL CHECK (cost >= 0),
  PRIMARY KEY (org, hour, team, key_id, model, target)
);
CREATE INDEX hours_key ON hours (key_id, hour);

CREATE TABLE audit (
  n       BIGINT NOT NULL PRIMARY KEY,
  at      BIGINT NOT NULL,
  actor   TEXT   NOT NULL,
  org     TEXT   NOT NULL,
  address TEXT   NOT NULL,
  action  TEXT   NOT NULL,
  object  TEXT   NOT NULL,
  before  TEXT   NOT NULL,
  after   TEXT   NOT NULL,
  detail  TEXT   NOT NULL,
  hash    BYTEA  NOT NULL
);

CREATE TABLE audit_head (
  one  BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
  n    BIGINT NOT NULL,
  hash BYTEA  NOT NULL
);

INSERT INTO revision (one, revision, keys) VALUES (1, 0, 0);
INSERT INTO audit_head (one, n, hash) VALUES (1, 0, '');
INSERT INTO orgs (id, name, blocked, created, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, base, top)
  VALUES ('default', 'default', FALSE, 0, 0, 0, 0, 0, 0, 0, 0);
-- Operators of the whole gateway name no organisation. Every key is in one all the same,
-- so theirs are in this one, which is in no list.
INSERT INTO orgs (id, name, blocked, created, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, base, top)
  VALUES ('', '', FALSE, 0, 0, 0, 0, 0, 0, 0, 0);
